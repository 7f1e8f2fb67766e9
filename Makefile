# peakproof - see "make help".
#
# One file. Each folder below src/ is an archive, and a unit test links only
# the archives its module may use, so an arrow that points up is a link error.
# Objects go to $(BUILD). Variables that ask pkg-config are expanded when they
# are used, not when this file is read: "deps" may install what they ask for
# in the same run.

BUILD   ?= build
SAN     ?=
WERROR  ?=
V       ?=
PREFIX  ?= /usr/local
DESTDIR ?=
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || \
             echo unknown)

PACKAGES := gcc libc6-dev pkgconf liblua5.4-dev libjansson-dev libcsv-dev \
            libopenblas-dev libcmocka-dev gnuplot-nox

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
        -Wmissing-prototypes -Wold-style-definition -Wundef -Wwrite-strings \
        -Wvla -Wformat=2 -Wnull-dereference -Wdouble-promotion \
        $(if $(findstring clang,$(CC)),-Wcast-align -Wno-sign-conversion,\
                                       -Wcast-align=strict)
OPT  := -O2 -g
ALL_CFLAGS = -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE $(OPT) \
             $(WARN) -fno-common -fstack-protector-strong -I. -Isrc -MMD -MP \
             $(SAN_CFLAGS) $(if $(WERROR),-Werror) $(CFLAGS) $(PKG_CFLAGS)
SAN_CFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer \
                          -fno-sanitize-recover=all) \
              $(if $(findstring thread,$(SAN)),-DPEAKPROOF_PLAIN_GEMM)
ALL_LDFLAGS = $(if $(SAN),-fsanitize=$(SAN)) -Wl,--as-needed $(LDFLAGS)

PKG        := lua5.4 jansson openblas
PKG_CFLAGS  = $(shell pkg-config --cflags $(PKG) 2>/dev/null)
LIBS        = $(shell pkg-config --libs $(PKG) 2>/dev/null) \
              -lcsv -lpthread -ldl -lm

# Targets that build a lot use every core.
JOBS    ?= $(shell nproc 2>/dev/null || echo 1)
SUBMAKE  = $(MAKE) --no-print-directory -j$(JOBS)

Q   := $(if $(V),,@)
say  = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

# Modules in link order: a module may use those to its right.
MODULES := report record script step price plan batch model comm dev mem base
src_of   = $(wildcard src/$(1)/*.c src/$(1)/*/*.c)
objs     = $(patsubst %.c,$(BUILD)/%.o,$(1))
LIB_ALL := $(MODULES:%=$(BUILD)/lib%.a)
MAIN    := $(call objs,$(wildcard bench/*.c))
PROG    := $(BUILD)/peakproof

.PHONY: all
all: $(PROG)

# ---- building --------------------------------------------------------------

$(PROG): $(MAIN) $(LIB_ALL)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

# Kernels live on vector loops; none looks at errno or at traps. Under a
# sanitizer that would take a minute to compile. private: what an object
# depends on is made without them.
$(BUILD)/src/dev/cpu/%.o: private CFLAGS += \
    $(if $(SAN),-O1,-O3 -fno-math-errno -fno-trapping-math)

# The program alone knows its version and where it will be installed.
$(MAIN): $(BUILD)/version
$(MAIN): CFLAGS += -DPEAKPROOF_VERSION='"$(VERSION)"' \
                   -DPEAKPROOF_PREFIX='"$(PREFIX)"'

# Files that change when what they stand for does, so that objects made with
# other flags or for another version are made anew.
.PHONY: FORCE
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(OPT) $(SAN)' | cmp -s - $@ || \
	    echo '$(CC) $(OPT) $(SAN)' >$@
$(BUILD)/version: FORCE
	@mkdir -p $(@D); echo '$(VERSION) $(PREFIX)' | cmp -s - $@ || \
	    echo '$(VERSION) $(PREFIX)' >$@

define archive
$(BUILD)/lib$(1).a: $(call objs,$(call src_of,$(1)))
	$$(call say,AR,$$@)
	$(Q)mkdir -p $$(@D) && rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach m,$(MODULES),$(eval $(call archive,$(m))))

# The scenario API's Lua part is built in: the file as bytes of a C array.
$(BUILD)/gen/prelude.c: lua/peakproof.lua
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)(echo '#include "script/api.h"'; \
	    echo 'const char api_prelude[] = {'; \
	    od -An -v -tx1 $< | sed 's/\([0-9a-f][0-9a-f]\)/0x\1,/g'; \
	    echo '0};'; \
	    echo 'const size_t api_prelude_len = sizeof api_prelude - 1;') >$@

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c $(BUILD)/flags
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/libscript.a: $(BUILD)/gen/prelude.o

# ---- tests -----------------------------------------------------------------

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

# tests/unit/fault.h makes the n-th host allocation of our objects fail.
$(BUILD)/unit/%_fault: LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc

# tests/cuda/test_cuda_*.c run the sources of cuda/ on tests/emu: a GPU's
# threads, runtime and libraries on the CPU, for which the .cu are C++.
EMU_SRC  := $(filter-out cuda/module.cu,$(wildcard cuda/*.cu)) \
            $(wildcard tests/emu/*.cpp) tests/cuda/planted.cu
EMU_OBJ  := $(patsubst %,$(BUILD)/emu/%.o,$(basename $(EMU_SRC)))
EMU      := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/cuda/test_*.c))
EMU_FLAGS = -std=c++17 $(OPT) -Wall -Wextra -I. -Isrc -Icuda -Itests/emu \
            -MMD -MP $(SAN_CFLAGS) $(if $(WERROR),-Werror) $(CXXFLAGS)

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

$(EMU): $(BUILD)/cuda/%: $(BUILD)/tests/cuda/%.o $(BUILD)/libemu.a \
                         $$(call below,step)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

$(BUILD)/bench/%: $(BUILD)/tests/bench/%.o $(LIB_ALL)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# A module that stands in for CUDA's, with the cpu device inside; objects of
# its own, since it is a shared library. tests/run-processes.sh loads it.
FAKE_SRC := tests/cuda/fake_module.c $(wildcard src/base/*.c) \
            $(wildcard src/dev/cpu/*.c)
FAKE_OBJ := $(FAKE_SRC:%.c=$(BUILD)/fake/%.o)
$(BUILD)/fake/peakproof-cuda.so: $(FAKE_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(BUILD)/fake/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -c -o $@ $<
$(BUILD)/fake/tests/cuda/fake_module.o: $(BUILD)/version
$(BUILD)/fake/tests/cuda/fake_module.o: private CFLAGS += \
    -DPEAKPROOF_VERSION='"$(VERSION)"'

# A fuzz target is linked with libFuzzer, or with a main that replays files.
FUZZ_MAIN = $(if $(findstring fuzzer,$(SAN)),,$(BUILD)/tests/fuzz/replay.o)
$(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o $$(FUZZ_MAIN) $(LIB_ALL)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(subst fuzzer-no-link,fuzzer,$(ALL_LDFLAGS)) -o $@ $^ $(LIBS)

.PHONY: unit unit-programs emu emu-programs test lint bench fuzz
emu-programs: $(EMU)
emu: $(EMU)
	@sh tests/run-unit.sh $(BUILD) cuda

unit-programs: $(UNIT) $(FUZZ)
unit: $(UNIT)
	@sh tests/run-unit.sh $(BUILD)

lint:
	@CC='$(CC)' PKG_CFLAGS='$(PKG_CFLAGS)' sh tests/lint.sh

# What TSan looks at: all that runs ranks as threads, in waves it can follow.
RACES := comm_local dev_threads step_oom step_threads

# Builds once more with ASan and UBSan, and those with TSan (without -Werror:
# under instrumentation gcc warns of what is not there); tests/run.sh runs all
# and counts.
test:
	@$(SUBMAKE) all unit-programs $(BUILD)/fake/peakproof-cuda.so
	@$(SUBMAKE) BUILD=$(BUILD)-san SAN=address,undefined WERROR= \
	    all unit-programs emu-programs
	@$(SUBMAKE) BUILD=$(BUILD)-tsan SAN=thread WERROR= \
	    $(RACES:%=$(BUILD)-tsan/unit/test_%)
	@CC='$(CC)' PKG_CFLAGS='$(PKG_CFLAGS)' sh tests/run.sh $(BUILD)

bench: all $(BENCH)
	@sh tests/run-bench.sh $(BUILD)

FUZZ_SECONDS ?= 20
fuzz:
	@command -v clang >/dev/null || { \
	    echo "fuzz: clang is missing (apt-get install clang)"; exit 2; }
	@$(SUBMAKE) BUILD=$(BUILD)-fuzz CC=clang \
	    SAN=fuzzer-no-link,address,undefined \
	    $(FUZZ:$(BUILD)/%=$(BUILD)-fuzz/%)
	@sh tests/run-fuzz.sh $(BUILD)-fuzz $(FUZZ_SECONDS)

# ---- the CUDA module -------------------------------------------------------

# A library of its own, so that the program links no CUDA. nvcc is looked for
# below CUDA_HOME, in PATH, in /usr/local/cuda and where deps-cuda puts it.
CUDA_WHEELS ?= build-cuda-deps
CUDA_ARCH   ?= 80 90
MODULE      := $(BUILD)/peakproof-cuda.so
NVCC         = $(firstword $(if $(CUDA_HOME),$(wildcard \
                   $(CUDA_HOME)/bin/nvcc)) $(shell command -v nvcc) \
                   $(wildcard /usr/local/cuda/bin/nvcc \
                              $(CUDA_WHEELS)/nvidia/cu*/bin/nvcc))
CUDA_ROOT    = $(patsubst %/bin/nvcc,%,$(NVCC))
NCCL_H       = $(firstword $(if $(NCCL_HOME),$(wildcard \
                   $(NCCL_HOME)/include/nccl.h)) $(wildcard \
                   $(CUDA_ROOT)/include/nccl.h \
                   $(CUDA_ROOT)/../nccl/include/nccl.h \
                   /usr/include/nccl.h /usr/local/include/nccl.h))
NCCL_ROOT    = $(patsubst %/include/nccl.h,%,$(NCCL_H))
comma       := ,
# Code for each architecture, and PTX of the last for those to come.
gencode      = -gencode arch=compute_$(1)$(comma)code=$(2)_$(1)
CUDA_CODE    = $(foreach a,$(CUDA_ARCH),$(call gencode,$(a),sm)) \
               $(call gencode,$(lastword $(CUDA_ARCH)),compute)
NVCC_FLAGS   = -std=c++17 -O3 -lineinfo $(CUDA_CODE) -I. -Isrc -Icuda \
               -Xcompiler -fPIC,-Wall,-Wextra -diag-suppress 20012 \
               $(if $(WERROR),-Werror all-warnings) \
               $(if $(NCCL_H),-DPEAKPROOF_NCCL -isystem $(NCCL_ROOT)/include)
CUDA_LIBDIRS = $(wildcard $(CUDA_ROOT)/lib64 $(CUDA_ROOT)/lib \
                   $(CUDA_ROOT)/targets/x86_64-linux/lib $(NCCL_ROOT)/lib)
# By file name: wheels have no libcublas.so without a number.
cuda_lib     = $(firstword $(foreach d,$(CUDA_LIBDIRS),\
                   $(wildcard $(d)/lib$(1).so $(d)/lib$(1).so.[0-9]*)))
CUDA_LINK    = $(call cuda_lib,cublas) \
               $(if $(NCCL_H),$(or $(call cuda_lib,nccl),-lnccl)) \
               $(foreach d,$(CUDA_LIBDIRS),-Xlinker -rpath=$(abspath $(d)))
CUDA_OBJS   := $(patsubst cuda/%.cu,$(BUILD)/nvcc/%.o,$(wildcard cuda/*.cu))

.PHONY: cuda deps-cuda print-nvcc
print-nvcc:
	@echo $(NVCC)
cuda: $(MODULE)
$(MODULE): $(CUDA_OBJS) $(BUILD)/nvcc/err.o
	$(call say,LINK,$@)
	$(Q)$(NVCC) -shared -cudart static -o $@.new $^ $(CUDA_LINK) \
	    -Xlinker -z,defs
	$(Q)mv $@.new $@
	@echo "cuda: $@ for sm_$(CUDA_ARCH)," \
	    "$(if $(NCCL_H),with NCCL,without NCCL: no nccl.h was found)"

$(BUILD)/nvcc/%.o: cuda/%.cu $(BUILD)/cuda.flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) -MD -MP -MF $(@:.o=.d) -c -o $@ $<

$(BUILD)/nvcc/module.o: $(BUILD)/version
$(BUILD)/nvcc/module.o: private NVCC_FLAGS += \
    -DPEAKPROOF_VERSION='"$(VERSION)"'

# Times of kernels beside the GPU's own rates; tests/device/run.sh runs it.
.PHONY: cuda-bench
cuda-bench: $(BUILD)/bench-device
$(BUILD)/bench-device: tests/device/bench_device.cu $(CUDA_OBJS) \
                       $(BUILD)/nvcc/err.o
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) -cudart static -o $@ $^ $(CUDA_LINK)

# What tests/device/run.sh runs beside the program: the tests of the emulated
# threads against the real module (tests/device/native.cu).
.PHONY: device-tests
NATIVE := $(patsubst %,$(BUILD)/device/test_cuda_%,attention delta moe plain)
device-tests: $(BUILD)/bench-device $(NATIVE)
$(BUILD)/device/%: $(BUILD)/tests/cuda/%.o $(BUILD)/nvcc/native.o $(MODULE) \
                   $(BUILD)/libstep.a $(BUILD)/libdev.a $(BUILD)/libbase.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(NVCC) -cudart static -o $@ $^ -Xlinker --wrap=malloc \
	    -Xlinker --wrap=calloc -Xlinker --wrap=realloc -Xlinker --wrap=free \
	    -Xlinker -rpath='$$ORIGIN/..' $(LIBS) -lcmocka
$(BUILD)/nvcc/native.o: tests/device/native.cu $(BUILD)/cuda.flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) -c -o $@ $<

# What the module needs of the program's code, position-independent.
$(BUILD)/nvcc/err.o: src/base/err.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -c -o $@ $<

$(BUILD)/cuda.flags: FORCE
	@[ -n "$(NVCC)" ] || { echo "cuda: no nvcc in CUDA_HOME, PATH or" \
	    "/usr/local/cuda. Install the CUDA Toolkit (12.4 or later, with" \
	    "cuBLAS; NCCL for more than one GPU), or run 'make deps-cuda'" \
	    "where Python has pip. The program needs none of it to run" \
	    "--device dry and cpu."; exit 2; }
	@mkdir -p $(@D); echo '$(NVCC) $(CUDA_CODE) $(NCCL_H)' | \
	    cmp -s - $@ || echo '$(NVCC) $(CUDA_CODE) $(NCCL_H)' >$@

# Toolkit and NCCL from Python wheels, into a folder of this tree alone.
deps-cuda:
	@command -v python3 >/dev/null && python3 -m pip --version \
	    >/dev/null 2>&1 || { echo "deps-cuda: needs python3 with pip" \
	    "(apt-get install python3-pip)"; exit 2; }
	python3 -m pip install --quiet --upgrade --target $(CUDA_WHEELS) \
	    $(CUDA_PACKAGES)
CUDA_PACKAGES ?= nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl \
                 nvidia-cublas nvidia-nccl-cu13

# ---- the report ------------------------------------------------------------

.PHONY: report
report:
	@$(SUBMAKE) all
	@sh tests/make-report.sh $(BUILD) out/report reports

# ---- the rest --------------------------------------------------------------

.PHONY: deps install clean help
deps:
	@missing=; for p in $(PACKAGES); do \
	    dpkg-query -W -f '$${Status}' $$p 2>/dev/null | \
	        grep -q 'ok installed' || missing="$$missing $$p"; \
	done; \
	if [ -z "$$missing" ]; then echo "deps: nothing is missing"; exit; fi; \
	command -v apt-get >/dev/null || { \
	    echo "deps: no apt-get here; install what these Debian packages" \
	         "hold:$$missing"; exit 1; }; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	echo "deps: installing$$missing"; \
	$$sudo apt-get update -q && $$sudo env DEBIAN_FRONTEND=noninteractive \
	    apt-get install -q -y --no-install-recommends $$missing

# "make deps test": first the packages, then what needs them.
ifneq ($(filter deps,$(MAKECMDGOALS)),)
$(BUILD)/flags $(BUILD)/version test report: | deps
endif

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/peakproof
	install $(PROG) $(DESTDIR)$(PREFIX)/bin/peakproof
	cp -R lua/. published $(DESTDIR)$(PREFIX)/share/peakproof

clean:
	rm -rf $(BUILD) $(BUILD)-san $(BUILD)-tsan $(BUILD)-fuzz out

help:
	@echo 'make deps      install the Debian packages that are missing'
	@echo 'make           build $(PROG)'
	@echo 'make cuda      build the CUDA module (needs nvcc)'
	@echo 'make deps-cuda toolkit and NCCL from Python wheels, locally'
	@echo 'make report    run the accuracy scenarios, write reports/'
	@echo 'make test      every test: unit, command line, report, lint'
	@echo 'make unit      unit tests alone'
	@echo 'make lint      style and dependency checks alone'
	@echo 'make bench     rates and times of the program'
	@echo 'make fuzz      fuzz the readers (clang; FUZZ_SECONDS=20 each)'
	@echo 'make install   to PREFIX=/usr/local, below DESTDIR'
	@echo 'make clean     remove what was built, and out/'
	@echo 'Variables: BUILD=dir SAN=address,undefined WERROR=1 V=1 CC=cc'

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
