# ptx.mk - the operators' tests on the PTX interpreter; part of the Makefile.
#
# nvcc compiles cuda/*.cu as for a GPU, but to PTX alone (ARCH: 90, or 80);
# the tests of tests/cuda link those objects with tests/ptx in the place of
# the CUDA runtime.
ARCH     ?= 90
PTX      := $(BUILD)/ptx$(ARCH)
PTX_CUDA := $(patsubst cuda/%.cu,$(PTX)/cuda/%.o,$(filter-out \
                cuda/module.cu cuda/nccl%.cu,$(wildcard cuda/*.cu)))
PTX_LIB  := $(patsubst tests/%.cpp,$(PTX)/%.o,$(wildcard tests/ptx/*.cpp) \
                $(patsubst %,tests/emu/%.cpp,control cublas grouped runtime \
                    streams))
PTX_TEST := $(patsubst %,$(PTX)/tests/test_cuda_%,attention delta moe plain)
PTX_FLAGS = -std=c++17 -g -O3 -march=native -ffp-contract=off -Wall -Wextra \
            -I. -isystem $(CUDA_ROOT)/include -MMD -MP $(if $(WERROR),-Werror)
PTX_NVCC  = $(NVCC) -std=c++17 -O3 -lineinfo --no-compress -I. -Isrc -Icuda \
            -gencode arch=compute_$(ARCH)$(comma)code=compute_$(ARCH) \
            -diag-suppress 20012

$(PTX)/cuda/%.o: cuda/%.cu $(BUILD)/cuda.flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(PTX_NVCC) -MD -MP -MF $(@:.o=.d) -c -o $@ $<
$(PTX)/%.o: tests/%.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(PTX_FLAGS) -c -o $@ $<
# Host memory is known to the interpreter as device memory is.
PTX_LINK  = $(CXX) $(ALL_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc \
            -Wl,--wrap=realloc,--wrap=free -o $@ $^ $(LIBS) -lcmocka
PTX_NEED := $(PTX_CUDA) $(PTX_LIB) $(BUILD)/libstep.a $(BUILD)/libdev.a \
            $(BUILD)/libbase.a
$(PTX)/tests/%: $(BUILD)/tests/cuda/%.o $(PTX_NEED)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(PTX_LINK)
$(PTX)/tests/test_finds: $(BUILD)/tests/ptx/finds.o $(PTX)/wrong.o $(PTX_LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(PTX_LINK)
$(PTX)/wrong.o: tests/ptx/wrong.cu $(BUILD)/cuda.flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(PTX_NVCC) -c -o $@ $<
$(PTX)/costs: $(BUILD)/tests/ptx/costs.o $(PTX_NEED)
	$(call say,LINK,$@)
	$(Q)$(PTX_LINK)

.PHONY: ptx-programs ptx-test ptx-accept
ptx-programs: $(PTX_TEST) $(PTX)/tests/test_finds $(PTX)/costs
ptx-test:
	@[ -z "$(NVCC)" ] || $(SUBMAKE) ptx-programs
	@sh tests/ptx/run.sh $(PTX) "$(NVCC)"
# What kernels cost now becomes what they may cost.
ptx-accept:
	@$(SUBMAKE) ptx-programs
	@ACCEPT=1 sh tests/ptx/run.sh $(PTX) "$(NVCC)"
