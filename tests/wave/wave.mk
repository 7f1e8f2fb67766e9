# wave.mk - the module's host code on a runtime that counts (tests/wave); part
# of the Makefile.
WAVE_MODULE := $(BUILD)/wave/peakproof-cuda.so
WAVE_OBJ    := $(patsubst tests/wave/%.cpp,$(BUILD)/emu/tests/wave/%.o,\
                   $(wildcard tests/wave/*.cpp)) \
               $(patsubst %,$(BUILD)/emu/tests/emu/%.o,control emu nccl) \
               $(patsubst %.cu,$(BUILD)/emu/%.o,$(wildcard cuda/*.cu)) \
               $(patsubst %,$(BUILD)/src/base/%.o,err clean)
$(WAVE_MODULE): $(WAVE_OBJ)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) -shared $(ALL_LDFLAGS) -o $@ $^ -Wl,-z,defs -lpthread -ldl \
	    -Wl,--wrap=_Z13cu_watch_openP2cuP3err
# The calls of tests/ptx/costs.c, counted alike.
$(BUILD)/wave/costs: $(BUILD)/tests/ptx/costs.o $(WAVE_OBJ) \
                     $(BUILD)/libstep.a $(BUILD)/libdev.a $(BUILD)/libbase.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(ALL_LDFLAGS) -o $@ $(filter-out %/module.o,$^) $(LIBS) -ldl \
	    -Wl,--wrap=_Z13cu_watch_openP2cuP3err

.PHONY: wave-programs wave
wave-programs: $(WAVE_MODULE) $(BUILD)/wave/costs
wave:
	@$(SUBMAKE) all wave-programs
	@sh tests/wave/run.sh $(BUILD) -v kernels=1
