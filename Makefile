# peakproof - see "make help".
#
# One file, no recursion. Each folder below src/ is an archive, and a unit
# test links only the archives its module may use, so an arrow that points up
# is a link error. Objects go to $(BUILD).

CC       ?= cc
BUILD    ?= build
SAN      ?=
WERROR   ?=
V        ?=
PREFIX   ?= /usr/local
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

WARN  := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
         -Wmissing-prototypes -Wold-style-definition -Wundef -Wwrite-strings \
         -Wvla -Wformat=2 -Wnull-dereference -Wdouble-promotion -Wcast-align=strict
OPT   := -O2 -g
CFLAGS += -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE $(OPT) $(WARN) \
          -fno-common -fstack-protector-strong -Isrc -MMD -MP \
          $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all) \
          $(if $(WERROR),-Werror)
LDFLAGS += $(if $(SAN),-fsanitize=$(SAN))

PKG    := lua5.4 jansson openblas
# = not := : the packages may be installed by "deps" in this very run
PKG_CFLAGS = $(shell pkg-config --cflags $(PKG) 2>/dev/null)
PKG_LIBS   = $(shell pkg-config --libs $(PKG) 2>/dev/null)
LIBS       = $(PKG_LIBS) -lcsv -lpthread -ldl -lm

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

# Modules in link order: a module may use those to its right.
MODULES := report record script step price plan batch model comm dev mem base
src_of   = $(wildcard src/$(1)/*.c src/$(1)/*/*.c)
obj_of   = $(patsubst %.c,$(BUILD)/%.o,$(call src_of,$(1)))
LIB_ALL := $(MODULES:%=$(BUILD)/lib%.a)

MAIN_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard bench/*.c))
PROG     := $(BUILD)/peakproof

.PHONY: all
all: $(PROG)

$(PROG): $(MAIN_OBJ) $(LIB_ALL)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(MAIN_OBJ) $(LIB_ALL) $(LIBS)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) $(PKG_CFLAGS) -DPEAKPROOF_VERSION='"$(VERSION)"' -c -o $@ $<

define archive
$(BUILD)/lib$(1).a: $(call obj_of,$(1))
	@mkdir -p $(BUILD)
	$$(call say,AR,$$@)
	$(Q)mkdir -p $$(@D) && rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach m,$(MODULES),$(eval $(call archive,$(m))))

# ---- tests ---------------------------------------------------------------
# tests/unit/test_MODULE_subject.c links MODULE's archive and those right of
# it in MODULES.
UNIT     := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))
# the archives of module 1 and of all to its right, in link order
below     = $(patsubst %,$(BUILD)/lib%.a,$(shell echo " $(MODULES) " | sed -n "s,.* \($(1) .*\),\1,p"))

.SECONDEXPANSION:
module_of = $(word 2,$(subst _, ,$(notdir $(1))))
$(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $$(call below,$$(call module_of,$$*))
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) -lcmocka $(UNIT_LDFLAGS)

.PHONY: unit
unit: $(UNIT)
	@sh tests/run-unit.sh $(UNIT)

.PHONY: clean
clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
