# peakproof - see "make help".
#
# Each folder below src/ is an archive, and a unit test links only the archives
# its module may use, so an arrow that points up is a link error.
# Objects go to $(BUILD). Variables that ask pkg-config are expanded when they
# are first used, not when this file is read: "deps" may install what they ask
# for in the same run.

BUILD   ?= build
SAN     ?=
WERROR  ?=
V       ?=
PREFIX  ?= /usr/local
DESTDIR ?=
# A tree without its history is told its version (.ci/run does).
VERSION := $(or $(PEAKPROOF_VERSION),$(shell \
             git describe --tags --always --dirty 2>/dev/null),unknown)
# The release is the newest of CHANGELOG.md; its tag is v and this.
RELEASE := $(shell sed -n 's/^\#\# \([0-9][0-9.]*\).*/\1/p' CHANGELOG.md | \
             head -n 1)

# g++ is for tests: the CUDA sources on emulated threads are C++.
PACKAGES := gcc g++ libc6-dev pkgconf liblua5.4-dev libjansson-dev \
            libcsv-dev libopenblas-dev libcmocka-dev gnuplot-nox

# What clang reads into the same words and gcc does not: NAN is a float, and
# assert(!"text").
CLANG_NOT := -Wno-sign-conversion -Wno-double-promotion \
             -Wno-string-conversion -Wno-format-nonliteral
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
        -Wmissing-prototypes -Wold-style-definition -Wundef -Wwrite-strings \
        -Wvla -Wformat=2 -Wnull-dereference -Wdouble-promotion \
        $(if $(findstring clang,$(CC)),-Wcast-align $(CLANG_NOT),\
                                       -Wcast-align=strict)
# With ASan and UBSan code compiles in half the time at -O1 with line numbers
# alone, and the tests take about as long. With TSan they take a quarter longer,
# and what has it is little.
OPT  := $(if $(SAN),$(if $(findstring thread,$(SAN)),-O2,-O1) -g1,-O2 -g)
ALL_CFLAGS = -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE $(OPT) \
             $(WARN) -fno-common -fstack-protector-strong -I. -Isrc -MMD -MP \
             $(SAN_CFLAGS) $(if $(WERROR),-Werror) $(PIC) $(CFLAGS) \
             $(PKG_CFLAGS)
SAN_CFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer \
                          -fno-sanitize-recover=all) \
              $(if $(findstring thread,$(SAN)),-DPEAKPROOF_PLAIN_GEMM)
ALL_LDFLAGS = $(if $(SAN),-fsanitize=$(SAN)) -Wl,--as-needed $(LDFLAGS)

PKG        := lua5.4 jansson openblas
PKG_CFLAGS  = $(eval PKG_CFLAGS := $(shell \
                  pkg-config --cflags $(PKG) 2>/dev/null))$(PKG_CFLAGS)
PKG_LIBS    = $(eval PKG_LIBS := $(shell \
                  pkg-config --libs $(PKG) 2>/dev/null))$(PKG_LIBS)
LIBS        = $(PKG_LIBS) -lcsv -lpthread -ldl -lm

# Targets that build a lot use every core.
JOBS    ?= $(shell nproc 2>/dev/null || echo 1)
SUBMAKE  = $(MAKE) --no-print-directory -j$(JOBS)

# have COMPILER,HEADERS: a compiler and what it reads, or what to do.
have = @for h in $(2); do echo "\#include <$$h>"; done | \
       $(1) -E $(PKG_CFLAGS) - >/dev/null 2>&1 || { \
           echo "make: $(firstword $(1)) or one of $(2) is missing:" \
                "run 'make deps' first"; exit 2; }

Q   := $(if $(V),,@)
say  = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

# Modules in link order: a module may use those to its right.
MODULES := report fit run record script step price plan batch model comm dev \
           snapshot mem base
src_of   = $(wildcard src/$(1)/*.c src/$(1)/*/*.c)
objs     = $(patsubst %.c,$(BUILD)/%.o,$(1))
LIB_ALL := $(MODULES:%=$(BUILD)/lib%.a)
MAIN    := $(call objs,$(wildcard bench/*.c))
PROG    := $(BUILD)/peakproof

# For people at a terminal, from the program's own tables.
MANUAL  := $(BUILD)/peakproof.1 $(BUILD)/peakproof.bash

.PHONY: all
all: $(PROG) $(MANUAL)

# ---- building --------------------------------------------------------------

$(PROG): $(MAIN) $(LIB_ALL)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

# Kernels live on vector loops; none looks at errno or at traps. gcc's -O2 with
# the cost model of -O3, and line numbers alone for a debugger, is as fast as
# -O3 and compiles in 2.7 s instead of 4.3. Under a sanitizer that would take a
# minute: OPT is left as it is. private: what an object depends on is made
# without them.
KERNEL_OPT := $(if $(findstring clang,$(CC)),-O3,\
                   -O2 -fvect-cost-model=dynamic -g1)
$(BUILD)/src/dev/cpu/%.o: private CFLAGS += \
    $(if $(SAN),,$(KERNEL_OPT)) -fno-math-errno -fno-trapping-math

# What libraries of the tests hold too is compiled once for both.
SHARED := -fPIC -fno-semantic-interposition
$(BUILD)/src/base/%.o $(BUILD)/src/dev/cpu/%.o: private PIC := $(SHARED)

# One file knows the version and where the program will be installed.
VERSION_O := $(BUILD)/src/base/version.o
$(VERSION_O): $(BUILD)/version
$(VERSION_O): CFLAGS += -DPEAKPROOF_VERSION='"$(VERSION)"' \
                        -DPEAKPROOF_RELEASE='"$(RELEASE)"' \
                        -DPEAKPROOF_PREFIX='"$(PREFIX)"'

# Files that change when what they stand for does, so that objects made with
# other flags or for another version are made anew.
.PHONY: FORCE
$(BUILD)/flags: FORCE
	$(call have,$(CC),lua.h jansson.h cblas.h csv.h)
	@mkdir -p $(@D); echo '$(CC) $(OPT) $(SAN) $(SHARED)' | \
	    cmp -s - $@ || echo '$(CC) $(OPT) $(SAN) $(SHARED)' >$@
$(BUILD)/version: FORCE
	@mkdir -p $(@D); echo '$(VERSION) $(RELEASE) $(PREFIX)' | \
	    cmp -s - $@ || echo '$(VERSION) $(RELEASE) $(PREFIX)' >$@

$(BUILD)/peakproof.1: $(PROG)
	$(call say,GEN,$@)
	$(Q)$(PROG) help man >$@.new && mv $@.new $@
$(BUILD)/peakproof.bash: $(PROG)
	$(call say,GEN,$@)
	$(Q)$(PROG) help bash-completion >$@.new && mv $@.new $@

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

# ---- unit, test, lint, bench, fuzz; cuda, deps-cuda -------------------------

include tests/tests.mk
include cuda/cuda.mk
include tests/ptx/ptx.mk
include tests/wave/wave.mk

# ---- the report ------------------------------------------------------------

.PHONY: report
report:
	@$(SUBMAKE) all
	@sh tests/make-report.sh $(BUILD) out/report reports

# ---- the rest --------------------------------------------------------------

.PHONY: deps install uninstall clean help
deps:
	@sh tests/deps.sh $(PACKAGES)

# "make deps test": first the packages, then what needs them.
ifneq ($(filter deps,$(MAKECMDGOALS)),)
$(BUILD)/flags $(BUILD)/version test report have-tests: | deps
endif

# The CUDA module goes along where "make cuda" has built it.
install: all
	@sh tests/install.sh install '$(BUILD)' '$(DESTDIR)$(PREFIX)'
uninstall:
	@sh tests/install.sh uninstall '$(BUILD)' '$(DESTDIR)$(PREFIX)'

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
	@echo 'make ptx-test  the CUDA kernels as nvcc compiles them, on an'
	@echo '               interpreter (needs nvcc; ARCH=90 or 80); ptx-accept'
	@echo '               keeps what they cost now as what they may cost'
	@echo 'make wave      what a wave of full size would take on one H200, by'
	@echo '               kernel (a model); how often it launches and waits'
	@echo 'make san-scenarios'
	@echo '               every scenario and report under ASan and UBSan'
	@echo 'make planted   bugs put into the kernels one by one: are they found?'
	@echo 'make mutants   small bugs in src and bench: does a test notice each?'
	@echo 'make lint      style and dependency checks alone'
	@echo 'make bench     rates and times of the program'
	@echo 'make fuzz      fuzz the readers (clang; FUZZ_SECONDS=20 each)'
	@echo 'make install   to PREFIX=/usr/local, below DESTDIR: program, CUDA'
	@echo '               module, man page, completion; make uninstall'
	@echo 'make clean     remove what was built, and out/'
	@echo 'Variables: BUILD=dir SAN=address,undefined WERROR=1 V=1 CC=cc'

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
