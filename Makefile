# SPDX-License-Identifier: GPL-2.0-or-later
#
# Builds nfq-noop and libnq, tests them, measures with them. `make help` tells the targets and the variables.
#
# Names in capitals belong to the user: they are never changed here, and flags among them come last on each command
# line. What the project itself needs is kept apart, in small letters.
# pkg-config is asked only when something is built: the first step of `make check` is to install it.

#: V=1              show the commands
#: SAN=LIST         build with sanitizers, in a tree of its own: address,undefined or thread
#: HARDEN=0         leave out the hardening flags
#: WERROR=1         let a warning end the build
#: BUILD=DIR        the tree to build in (build)
#: CHECK=KINDS      the kinds of tests that check runs (all; a directory of tests/ each)
#: SECONDS=N        how long fuzz looks (60)
#: MINUTES=N        how long soak runs (10)
#: BENCH_ARGS=ARGS  given to `nfq-bench run`
CFLAGS ?= -O2 -g
PKG_CONFIG ?= pkg-config

#: PREFIX=DIR       where to install (/usr/local); also BINDIR SBINDIR INCLUDEDIR LIBDIR DATADIR MANDIR UNITDIR
#: DESTDIR=DIR      a root to put in front of them all
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
INCLUDEDIR ?= $(PREFIX)/include
LIBDIR ?= $(PREFIX)/lib
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
UNITDIR ?= $(PREFIX)/lib/systemd/system

SECONDS ?= 60
MINUTES ?= 10

comma := ,
BUILD = build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(Q),@printf '  %-7s %s\n' $(1) '$(2)')

# --- flags of the project -------------------------------------------------------------------------------------------

warnings := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
	-Wconversion -Wformat=2 -Wundef -Wvla -Wwrite-strings -Wpointer-arith -Wimplicit-fallthrough \
	$(if $(filter 1,$(WERROR)),-Werror)

# _FORTIFY_SOURCE warns without optimization, and is left alone where the user, or the distribution, has chosen it.
optimized := $(filter-out -O0,$(lastword $(filter -O%,$(CFLAGS))))
fortify := $(if $(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),,$(if $(optimized),-D_FORTIFY_SOURCE=2))
ifneq ($(SAN),)
instrument := -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifneq ($(HARDEN),0)
harden_cppflags := $(fortify)
harden_cflags := -fstack-protector-strong -fstack-clash-protection -fPIE
harden_ldflags := -pie -Wl,-z,relro,-z,now
endif

# pkg-config is asked once, when the first command needs it.
libraries := libmnl libnetfilter_queue libnfnetlink libcap libseccomp jansson
library_cflags = $(eval library_cflags := $$(shell $(PKG_CONFIG) --cflags $(libraries) $(optional) 2>/dev/null) \
	$(if $(optional),-DHAVE_SYSTEMD))$(library_cflags)
library_libs = $(eval library_libs := $$(shell $(PKG_CONFIG) --libs $(libraries) $(optional) 2>/dev/null))$(library_libs)
# Without it a service manager is neither told anything nor asked to keep anything.
optional = $(eval optional := $$(shell $(PKG_CONFIG) --exists libsystemd 2>/dev/null && echo libsystemd))$(optional)

own_cppflags = -D_GNU_SOURCE $(includes) $(harden_cppflags) $(library_cflags)
own_cflags := -std=gnu11 -pthread -MMD -MP $(warnings) $(harden_cflags) $(instrument)
own_ldflags := -pthread $(harden_ldflags) $(instrument)
own_libs = $(test_libs) $(library_libs)

compile = $(CC) $(own_cppflags) $(own_cflags) $(special) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
link = $(CC) $(own_ldflags) $(wraps) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(own_libs) $(LDLIBS)

# --- sources --------------------------------------------------------------------------------------------------------

library_objects := $(patsubst %.c,$(BUILD)/%.o,$(wildcard src/libnq/*.c))
daemon_objects := $(patsubst %.c,$(BUILD)/%.o,$(wildcard src/*.c))
load_objects := $(patsubst %.c,$(BUILD)/%.o,$(wildcard src/udp/*.c))
test_programs := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/*.c tests/kernel/*.c tests/micro/*.c tests/fuzz/*.c \
	tests/faults/*.c))
headers := $(wildcard include/*.h src/*.h src/libnq/*.h src/udp/*.h tests/*/*.h)
sources := $(wildcard src/*.c src/libnq/*.c src/udp/*.c tests/*/*.c)
manuals := $(wildcard src/man/*.[1-8])

includes := -Iinclude
$(BUILD)/src/libnq/%.o: special := -fPIC
$(BUILD)/tests/%.o: includes := -Iinclude -Isrc -Isrc/libnq
# cmocka prescribes parameters that most tests do not use; tests pass constant words as argv and odd numbers as lengths.
$(BUILD)/tests/unit/%.o: special = $(shell $(PKG_CONFIG) --cflags cmocka) -Wno-unused-parameter \
	-Wno-missing-prototypes -Wno-write-strings -Wno-conversion -Wno-sign-conversion
$(BUILD)/tests/unit/%: test_libs = $(shell $(PKG_CONFIG) --libs cmocka)
# A test names the functions that it replaces on a line of its own: /* wrap: sendmsg recvmmsg */
$(BUILD)/tests/unit/% $(BUILD)/tests/micro/% $(BUILD)/tests/faults/%: \
	private wraps = $(addprefix -Wl$(comma)--wrap=,$(shell sed -n '$(wrap_line)' $(@:$(BUILD)/%=%.c)))
wrap_line := s|^/\* wrap: \(.*\) \*/$$|\1|p
# Symbols are all that callgrind needs, and valgrind 3.19 gives up at clang's debug information.
$(BUILD)/tests/micro/%: private own_ldflags += -Wl,--strip-debug

# Before anything is written: a tree may have been built by somebody else, and often by root.
prepare = mkdir -p $(@D) 2>/dev/null && [ -w $(@D) ] || { echo "make: cannot write to $(@D) as $$(id -un):" \
	"let the owner of $(BUILD) run 'make clean', or build elsewhere with BUILD=DIR" >&2; exit 1; }

# --- targets --------------------------------------------------------------------------------------------------------

.SUFFIXES:
.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: all tests check check-faults soak fuzz check-san check-vm check-scenarios bench bench-micro lint lint-format lint-tidy lint-cppcheck lint-shell lint-build \
	lint-python lint-man install uninstall clean help FORCE

all: $(BUILD)/nfq-noop $(BUILD)/nfq-udp $(BUILD)/libnq.a $(if $(filter build,$(BUILD)),nfq-noop nfq-udp) ## build daemon and library (default)

tests: $(test_programs) ## build the test programs

# The thread sanitizer of gcc 12 does not come up where newer kernels place memory at random.
check: ## install what is missing, build, run all tests: as root or as an ordinary user
	@$(install_deps) check
	@$(MAKE) --no-print-directory all tests
	@$(if $(filter thread,$(SAN)),setarch --addr-no-randomize) tests/run --build $(BUILD) $(CHECK)

check-san: ## unit, fuzz, kernel, netns and faults tests of daemons built with the sanitizers: 15 minutes
	@$(MAKE) --no-print-directory check SAN=address,undefined CHECK='unit fuzz kernel netns faults'
	@$(MAKE) --no-print-directory check SAN=thread CHECK='unit fuzz kernel netns faults'

# Two emulated machines at a time, each of a single thread.
check-vm: ## tests under Linux 6.1 and 6.12, with and without PREEMPT_RT, in emulated machines: 10 minutes
	@$(install_deps) vm || true
	@$(MAKE) --no-print-directory all
	@NFQ_NOOP='$(abspath $(BUILD))/nfq-noop' NFQ_UDP='$(abspath $(BUILD))/nfq-udp' \
		prove --failures --comments --jobs 2 --exec 'timeout --kill-after=30 600' tests/vm/*.t

check-scenarios: ## every row of every scenario, quickly: a quarter of an hour
	@$(install_deps) check
	@$(MAKE) --no-print-directory all
	@NFQ_NOOP='$(abspath $(BUILD))/nfq-noop' NFQ_UDP='$(abspath $(BUILD))/nfq-udp' NFQ_TEST_ALL_ROWS=yes \
		prove --failures --comments tests/bench/scenarios.t

check-faults: ## stops, restarts, crashes and faults under load, twenty of each: 3 minutes
	@$(install_deps) check
	@$(MAKE) --no-print-directory all tests
	@NFQ_FAULTS_ROUNDS=20 tests/run --build $(BUILD) faults

soak: ## full load with restarts and faults for MINUTES; a summary at the end
	@$(install_deps) check
	@$(MAKE) --no-print-directory all
	@NFQ_NOOP='$(abspath $(BUILD))/nfq-noop' NFQ_UDP='$(abspath $(BUILD))/nfq-udp' tests/faults/soak.sh $(MINUTES)

# Both at once. What is found beyond the corpus stays in build/fuzz, and is a failure only if
# it breaks something.
fuzz: ## look for bytes that break a parser, for SECONDS
	@$(install_deps) lint
	@for target in packet options; do \
		mkdir -p build/fuzz/$$target; \
		clang -std=gnu11 -D_GNU_SOURCE -DFUZZER -g -O1 -fsanitize=fuzzer,address,undefined \
			-fno-sanitize-recover=all $(includes) -Isrc -Isrc/libnq $(library_cflags) -o build/fuzz/$$target.run \
			tests/fuzz/$$target.c $(filter-out src/main.c,$(wildcard src/*.c)) $(wildcard src/libnq/*.c) \
			$(library_libs) || exit 1; \
	done
	@cd build/fuzz && status=0; for target in packet options; do \
		(timeout --kill-after=60 $$(($(SECONDS) + 60)) ./$$target.run -max_total_time=$(SECONDS) -max_len=4096 \
			-verbosity=0 -print_final_stats=1 -artifact_prefix=$$target- $$target \
			../../tests/fuzz/corpus/$$target >$$target.log 2>&1; echo $$? >$$target.status) & \
	done; wait; for target in packet options; do \
		echo "$$target: status $$(cat $$target.status), $$(grep -h number_of_executed_units $$target.log)"; \
		[ "$$(cat $$target.status)" = 0 ] || { tail -n 40 $$target.log; status=1; }; \
	done; exit $$status
	@gcc -std=gnu11 -D_GNU_SOURCE --coverage $(includes) -Isrc/libnq -c -o build/fuzz/parser.o src/libnq/packet.c
	@gcc -std=gnu11 -D_GNU_SOURCE $(includes) -Isrc/libnq -o build/fuzz/coverage tests/fuzz/packet.c build/fuzz/parser.o \
		--coverage
	@rm -f build/fuzz/*.gcda && build/fuzz/coverage >build/fuzz/coverage.log
	@gcov -n build/fuzz/parser.gcda 2>/dev/null | sed -n "/libnq.packet.c'/{n;s/^/packet.c by the corpus alone: /p}"

bench: ## install what is missing, build, measure, print the table
	@$(install_deps) bench
	@$(MAKE) --no-print-directory all
	@NFQ_NOOP='$(abspath $(BUILD))/nfq-noop' NFQ_UDP='$(abspath $(BUILD))/nfq-udp' scripts/nfq-bench run $(BENCH_ARGS)

bench-micro: ## install what is missing, build, count the instructions that a packet costs
	@$(install_deps) check
	@$(MAKE) --no-print-directory all $(BUILD)/tests/micro/loop
	@tests/micro/run --build $(BUILD)

install_deps = CC='$(CC)' PKG_CONFIG='$(PKG_CONFIG)' scripts/install-deps

nfq-noop nfq-udp: %: build/%
	$(call say,LINK,$@)
	$(Q)ln -sf $< $@

$(BUILD)/nfq-noop: $(daemon_objects) $(BUILD)/libnq.a
	$(call say,LD,$@)
	$(Q)$(link)

$(BUILD)/nfq-udp: $(load_objects)
	$(call say,LD,$@)
	$(Q)$(link)

$(BUILD)/libnq.a: $(library_objects)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/%.o: %.c $(BUILD)/flags
	@$(prepare)
	$(call say,CC,$@)
	$(Q)$(compile)

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(filter-out %/main.o,$(daemon_objects)) $(BUILD)/libnq.a
	$(call say,LD,$@)
	$(Q)$(link)

$(BUILD)/tests/kernel/%: $(BUILD)/tests/kernel/%.o $(BUILD)/libnq.a
	$(call say,LD,$@)
	$(Q)$(link)

$(BUILD)/tests/fuzz/%: $(BUILD)/tests/fuzz/%.o $(filter-out %/main.o,$(daemon_objects)) $(BUILD)/libnq.a
	$(call say,LD,$@)
	$(Q)$(link)

$(BUILD)/tests/faults/%: $(BUILD)/tests/faults/%.o $(BUILD)/libnq.a
	$(call say,LD,$@)
	$(Q)$(link)

$(BUILD)/tests/micro/%: $(BUILD)/tests/micro/%.o $(BUILD)/src/noop.o $(BUILD)/libnq.a
	$(call say,LD,$@)
	$(Q)$(link)

# Changes when the flags do, so that everything is built anew.
$(BUILD)/flags: export flags = $(compile) $(link)
$(BUILD)/flags: FORCE
	@$(PKG_CONFIG) --exists --print-errors $(libraries) || \
		{ echo "make: libraries are missing: scripts/install-deps installs them, or tells how" >&2; exit 1; }
	@[ "$$(cat $@ 2>/dev/null)" = "$$flags" ] || { { $(prepare); } && printf '%s\n' "$$flags" >$@; }

-include $(library_objects:.o=.d) $(daemon_objects:.o=.d) $(load_objects:.o=.d) $(addsuffix .d,$(test_programs))

# --- lint -----------------------------------------------------------------------------------------------------------

lint: ## everything that can be checked without running; stops after the first kind that finds something
	@$(install_deps) lint
	@for kind in format tidy cppcheck shell build python man; do \
		$(MAKE) --no-print-directory lint-$$kind || exit 1; \
	done

lint-format:
	$(call say,FORMAT,clang-format: C sources and headers)
	$(Q)clang-format --dry-run -Werror $(headers) $(sources)

lint-tidy:
	$(call say,TIDY,clang-tidy: C sources and the headers that they include)
	$(Q)printf '%s\n' $(sources) | xargs -P "$$(nproc)" -n 1 sh -c 'clang-tidy --quiet "$$1" -- $(tidy_flags) 2>/dev/null' -

tidy_flags = -std=gnu11 -D_GNU_SOURCE -Iinclude -Isrc -Isrc/libnq $(library_cflags)

lint-cppcheck:
	$(call say,CPPCHECK,cppcheck: C sources)
	$(Q)cppcheck --quiet --enable=warning,style,performance,portability --inline-suppr --error-exitcode=1 --std=c11 \
		--template=gcc -D_GNU_SOURCE -Iinclude -Isrc -Isrc/libnq $(sources)

lint-shell:
	$(call say,SHELL,shellcheck: scripts)
	$(Q)shellcheck -x $(shell_scripts)

shell_scripts = $(shell find . \( -name .git -o -path ./build \) -prune -o -type f -exec \
	awk '/^\#!.*[\/ ](ba)?sh$$/ || FILENAME ~ /[.]sh$$/ { print FILENAME } { nextfile }' {} +)

lint-build: # each compiler finds what the other does not
	@$(MAKE) --no-print-directory CC=gcc WERROR=1 BUILD=build/lint-gcc all tests
	@$(MAKE) --no-print-directory CC=clang WERROR=1 BUILD=build/lint-clang all tests

python := scripts/nfq-bench scripts/link-sizes scripts/nfqbench tests/bench tests/micro/run tests/faults/manager.py

lint-python:
	$(call say,MYPY,mypy --strict: $(python))
	$(Q)MYPYPATH=scripts:tests/bench mypy --strict --scripts-are-modules --cache-dir $(BUILD)/mypy \
		$(python) $(wildcard tests/bench/*.t)
	$(call say,PYFLAKES,pyflakes: $(python))
	$(Q)$(firstword $(shell command -v pyflakes3 pyflakes)) $(python) $(wildcard tests/bench/*.t)

lint-man:
	$(call say,MANDOC,mandoc: manual pages)
	$(Q)mandoc -T lint -W warning $(manuals)

# --- install --------------------------------------------------------------------------------------------------------

# What nfq-bench needs keeps the layout of the source tree, so that each part finds the others as it does there.
share := $(DATADIR)/nfq-bench
share_files := $(wildcard scripts/*.sh scripts/nfq-bench scripts/link-sizes scripts/install-deps scripts/nfqbench/*.py \
	scripts/scenarios/*.toml results/README.txt results/reference/*)

# What is installed, FROM:TO a word, and the links, TARGET:NAME a word. uninstall removes what stands after the colons.
installed = $(BUILD)/nfq-noop:$(SBINDIR)/nfq-noop \
	$(BUILD)/nfq-udp:$(share)/nfq-udp \
	include/nq.h:$(INCLUDEDIR)/nq.h \
	$(BUILD)/libnq.a:$(LIBDIR)/libnq.a \
	$(BUILD)/libnq.pc:$(LIBDIR)/pkgconfig/libnq.pc \
	$(BUILD)/nfq-noop.service:$(UNITDIR)/nfq-noop.service \
	$(foreach page,$(manuals),$(page):$(MANDIR)/man$(patsubst .%,%,$(suffix $(page)))/$(notdir $(page))) \
	$(foreach file,$(share_files),$(file):$(share)/$(file))
links = $(SBINDIR)/nfq-noop:$(share)/nfq-noop $(share)/scripts/nfq-bench:$(BINDIR)/nfq-bench

install: all $(BUILD)/libnq.pc $(BUILD)/nfq-noop.service ## install to DESTDIR and PREFIX
	$(Q)set -e; IFS=:; for pair in $(installed); do \
		set -- $$pair; \
		mode=644; [ ! -x "$$1" ] || mode=755; \
		echo "  INSTALL $(DESTDIR)$$2"; \
		install -D -m $$mode "$$1" "$(DESTDIR)$$2"; \
	done
	$(Q)set -e; IFS=:; for pair in $(links); do \
		set -- $$pair; \
		echo "  LINK    $(DESTDIR)$$2"; \
		install -d "$$(dirname "$(DESTDIR)$$2")"; \
		ln -sfnr "$(DESTDIR)$$1" "$(DESTDIR)$$2"; \
	done

targets = $(foreach pair,$(installed) $(links),$(lastword $(subst :, ,$(pair))))
directories = $(sort $(dir $(targets)))

# Directories that are then empty go too: all below DESTDIR, but only those of our own in a system that is in use, where
# an empty /usr/local/bin may have been there before.
ifneq ($(DESTDIR),)
prunable = $(patsubst /%,%,$(directories))
else
prunable = $(patsubst $(DATADIR)/%,%,$(filter $(share)/%,$(directories)))
endif

uninstall: ## remove what install has put there
	$(Q)for file in $(targets); do echo "  REMOVE  $(DESTDIR)$$file"; rm -f "$(DESTDIR)$$file"; done
	$(Q)cd "$(or $(DESTDIR),$(DATADIR))" 2>/dev/null || exit 0; for directory in $(prunable); do \
		[ ! -d "$$directory" ] || rmdir -p --ignore-fail-on-non-empty "$$directory"; \
	done

$(BUILD)/libnq.pc: src/libnq/libnq.pc.in FORCE
	@$(prepare)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' \
		-e 's|@INCLUDEDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(INCLUDEDIR))|' -e "s|@VERSION@|$(version)|" $< >$@.new
	$(Q)mv -f $@.new $@

$(BUILD)/nfq-noop.service: src/systemd/nfq-noop.service.in FORCE
	@$(prepare)
	$(Q)sed 's|@SBINDIR@|$(SBINDIR)|' $< >$@.new
	$(Q)mv -f $@.new $@

version = $(shell sed -n 's/^.define NQ_VERSION "\(.*\)"/\1/p' include/nq.h)

# --- housekeeping ---------------------------------------------------------------------------------------------------

clean: ## remove what was built in build/
	$(Q)rm -rf build nfq-noop nfq-udp
	$(Q)find scripts tests -name __pycache__ -prune -exec rm -rf {} +

help: ## print this
	@echo 'targets:'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 20
	@echo 'variables:'
	@sed -n 's/^#: /  /p' Makefile
	@echo 'and as usual CC CPPFLAGS CFLAGS LDFLAGS LDLIBS PKG_CONFIG'
