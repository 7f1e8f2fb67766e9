# tests.mk - what is built and run for tests; part of the Makefile above.

# tests/unit/test_MODULE_subject.c links MODULE's archive and those to its
# right in MODULES.
UNIT  := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
BENCH := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/bench/*.c))
FUZZ  := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
# tests/unit/test_bench_subject.c links the program, its main left out.
below  = $(if $(filter bench,$(1)),$(filter-out %/main.o,$(MAIN)) $(LIB_ALL),\
             $(patsubst %,$(BUILD)/lib%.a,$(shell echo ' $(MODULES) ' | \
                 sed -n 's/.* \($(1) .*\)/\1/p')))
module = $(word 2,$(subst _, ,$(1)))

.SECONDARY:     # objects of tests are kept
.SECONDEXPANSION:
$(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $$(call below,$$(call module,$$*))
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

# Tests spend their time in what they test: their own files compile in a third
# of the time without optimization. Not those that hold an oracle as slow.
ORACLES := plan_coverage mem_oracle mem_free_set
TEST_O := $(call objs,$(filter-out $(ORACLES:%=tests/unit/test_%.c),\
              $(wildcard tests/unit/*.c tests/fuzz/*.c tests/cuda/*.c)))
$(TEST_O): private OPT := -O0 -g1

# tests/unit/fault.h makes the n-th host allocation of our objects fail.
$(BUILD)/unit/test_run_jobs: LDFLAGS += -Wl,--wrap=fork
$(BUILD)/unit/%_fault: LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc

# tests/cuda/test_cuda_*.c run the sources of cuda/ on tests/emu: a GPU's
# threads, runtime and libraries on the CPU, for which the .cu are C++.
EMU_SRC  := $(filter-out cuda/module.cu,$(wildcard cuda/*.cu)) \
            $(wildcard tests/emu/*.cpp) tests/cuda/planted.cu
EMU_OBJ  := $(patsubst %,$(BUILD)/emu/%.o,$(basename $(EMU_SRC)))
EMU      := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/cuda/test_*.c))
# (gcc does not see that what a launch captures was set by a call)
EMU_FLAGS = -std=c++17 $(OPT) -Wall -Wextra -I. -Isrc -Icuda -Itests/emu \
            -Wno-maybe-uninitialized -DPEAKPROOF_NCCL -fPIC -MMD -MP \
            $(SAN_CFLAGS) \
            $(if $(WERROR),-Werror) $(CXXFLAGS)

$(BUILD)/emu/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,EMU,$<)
	$(Q)$(CXX) $(EMU_FLAGS) -x c++ -c -o $@ $<
$(BUILD)/emu/%.o: %.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,EMU,$<)
	$(Q)$(CXX) $(EMU_FLAGS) -c -o $@ $<
$(BUILD)/libemu.a: $(EMU_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

# The whole module on the emulator: the program runs on it as on a GPU
# (tests/run-emu.sh).
EMU_MODULE := $(BUILD)/emu/peakproof-cuda.so
$(EMU_MODULE): $(filter-out %/planted.o,$(EMU_OBJ)) \
               $(BUILD)/emu/cuda/module.o $(BUILD)/src/base/err.o \
               $(BUILD)/src/base/clean.o
	$(call say,LINK,$@)
	$(Q)$(CXX) -shared $(ALL_LDFLAGS) -o $@ $^ -Wl,-z,defs -lpthread
$(BUILD)/emu/cuda/module.o: $(BUILD)/version
$(BUILD)/emu/cuda/module.o: private EMU_FLAGS += \
    -DPEAKPROOF_VERSION='"$(VERSION)"'

$(EMU): $(BUILD)/cuda/%: $(BUILD)/tests/cuda/%.o $(BUILD)/libemu.a \
                         $$(call below,step)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

$(BUILD)/bench/%: $(BUILD)/tests/bench/%.o $(LIB_ALL)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# A module that stands in for CUDA's, with the cpu device inside.
# tests/run-processes.sh loads it.
FAKE_O := $(BUILD)/fake/tests/cuda/fake_module.o
$(BUILD)/fake/peakproof-cuda.so: $(FAKE_O) $(call objs,$(call src_of,base) \
                                   $(wildcard src/dev/cpu/*.c))
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(BUILD)/fake/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -c -o $@ $<
$(FAKE_O): $(BUILD)/version
$(FAKE_O): private CFLAGS += -DPEAKPROOF_VERSION='"$(VERSION)"'

# Preloaded by tests/run-faults.sh.
$(BUILD)/faults/shim.so: tests/faults/shim.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) -std=c11 -O2 $(WARN) -Wno-pedantic -Wno-missing-prototypes \
	    -fPIC -shared -o $@ $< -ldl

# A fuzz target is linked with libFuzzer, or with a main that replays files.
FUZZ_MAIN = $(if $(findstring fuzzer,$(SAN)),,$(BUILD)/tests/fuzz/replay.o)
$(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o $$(FUZZ_MAIN) $(LIB_ALL)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(subst fuzzer-no-link,fuzzer,$(ALL_LDFLAGS)) -o $@ $^ $(LIBS)

.PHONY: unit unit-programs emu emu-programs have-tests test lint bench fuzz
have-tests:
	$(call have,$(CC),cmocka.h)
	$(call have,$(CXX) -x c++,cstdint)
emu-programs: $(EMU)
emu: have-tests $(EMU)
	@sh tests/run-unit.sh $(BUILD) cuda

unit-programs: $(UNIT) $(FUZZ)
unit: have-tests $(UNIT)
	@sh tests/run-unit.sh $(BUILD)

lint: $(PROG)
	@BUILD='$(BUILD)' CC='$(CC)' PKG_CFLAGS='$(PKG_CFLAGS)' sh tests/lint.sh

# What TSan looks at: all that runs threads (ranks of a case, ranks that meet),
# in waves it can follow.
RACES := comm_local comm_marks comm_rendezvous dev_threads fit_threads \
         run_case step_oom step_threads

# Builds once more with ASan and UBSan, and those with TSan, all at the same
# time: one build's last links leave no core idle. tests/run.sh runs all and
# counts.
.PHONY: test-programs test-programs-san test-programs-tsan
test: have-tests
	@$(SUBMAKE) test-programs
	@CC='$(CC)' PKG_CFLAGS='$(PKG_CFLAGS)' NVCC='$(NVCC)' \
	    sh tests/run.sh $(BUILD)
test-programs: test-programs-san test-programs-tsan all unit-programs \
               $(EMU_MODULE) $(BUILD)/fake/peakproof-cuda.so \
               $(BUILD)/faults/shim.so wave-programs $(if $(NVCC),ptx-programs)
test-programs-san:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)-san \
	    SAN=address,undefined WERROR= all unit-programs emu-programs
test-programs-tsan:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)-tsan SAN=thread WERROR= \
	    $(RACES:%=$(BUILD)-tsan/unit/test_%)

# Every scenario, report and what else there is under ASan and UBSan, about ten
# minutes; make test does a few of them.
.PHONY: san-scenarios
san-scenarios:
	@$(SUBMAKE) BUILD=$(BUILD)-san SAN=address,undefined WERROR= all
	@sh tests/run-scenarios.sh $(BUILD)-san

bench: all wave-programs $(BENCH)
	@sh tests/run-bench.sh $(BUILD)

# Bugs put into a copy of the tree, one by one: a test must fail.
.PHONY: planted
planted:
	@sh tests/planted/run.sh "$(NVCC)" $(BUGS)

# Small bugs in src and bench, drawn by the commit: which does no test notice?
.PHONY: mutants
mutants: have-tests
	@sh tests/mutants/run.sh $(MUTANTS)

FUZZ_SECONDS ?= 20
fuzz:
	@command -v clang >/dev/null || { \
	    echo "fuzz: clang is missing (apt-get install clang)"; exit 2; }
	@$(SUBMAKE) BUILD=$(BUILD)-fuzz CC=clang WERROR= \
	    SAN=fuzzer-no-link,address,undefined \
	    $(FUZZ:$(BUILD)/%=$(BUILD)-fuzz/%)
	@sh tests/run-fuzz.sh $(BUILD)-fuzz $(FUZZ_SECONDS) $(JOBS)
