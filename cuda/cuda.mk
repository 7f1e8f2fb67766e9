# cuda.mk - the CUDA module; part of the Makefile above.
#
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
# cuBLAS and NCCL are loaded when they are needed (cuda/load): first from where
# they were when this was built.
CUDA_LINK    = $(foreach d,$(CUDA_LIBDIRS),-Xlinker -rpath=$(abspath $(d))) \
               -ldl
CUDA_OBJS   := $(patsubst cuda/%.cu,$(BUILD)/nvcc/%.o,\
                   $(wildcard cuda/*.cu cuda/load/*.cu)) \
               $(BUILD)/nvcc/err.o $(BUILD)/nvcc/clean.o $(BUILD)/nvcc/libs.o

.PHONY: cuda deps-cuda print-nvcc
print-nvcc:
	@echo $(NVCC)
cuda: $(MODULE)
$(MODULE): $(CUDA_OBJS)
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
$(BUILD)/bench-device: tests/device/bench_device.cu $(CUDA_OBJS)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) -cudart static -o $@ $^ $(CUDA_LINK)

# What tests/device/run.sh runs beside the program: the tests of the emulated
# threads against the real module (tests/device/native.cu). The runtime is the
# shared one: its own malloc must not be wrapped.
.PHONY: device-tests
NATIVE := $(patsubst %,$(BUILD)/device/test_cuda_%,attention delta moe plain)
device-tests: $(BUILD)/bench-device $(NATIVE)
$(BUILD)/device/%: $(BUILD)/tests/cuda/%.o $(BUILD)/nvcc/native.o $(MODULE) \
                   $(BUILD)/libstep.a $(BUILD)/libdev.a $(BUILD)/libbase.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(NVCC) -cudart shared -o $@ $^ -Xlinker --wrap=malloc \
	    -Xlinker --wrap=calloc -Xlinker --wrap=realloc -Xlinker --wrap=free \
	    -Xlinker -rpath='$$ORIGIN/..' $(LIBS) -lcmocka \
	    $(foreach d,$(CUDA_LIBDIRS),-Xlinker -rpath=$(abspath $(d)))
$(BUILD)/nvcc/native.o: tests/device/native.cu $(BUILD)/cuda.flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) -c -o $@ $<

# What the module needs of the program's code, position-independent.
$(BUILD)/nvcc/err.o: src/base/err.c
$(BUILD)/nvcc/clean.o: src/base/clean.c
$(BUILD)/nvcc/libs.o: src/dev/libs.c
$(BUILD)/nvcc/err.o $(BUILD)/nvcc/clean.o $(BUILD)/nvcc/libs.o: \
        $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$(filter %.c,$^))
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -c -o $@ $(filter %.c,$^)

$(BUILD)/cuda.flags: FORCE
	@[ -n "$(NVCC)" ] || { echo "cuda: no nvcc in CUDA_HOME, PATH or" \
	    "/usr/local/cuda. Install the CUDA Toolkit (12.5 or later, with" \
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
