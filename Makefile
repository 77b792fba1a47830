# SPDX-License-Identifier: GPL-2.0-only
#
# Makefile - all of it, not recursive; `make help` lists the targets
#
# Everything is made below $(BUILD). A variant has its own directory there with objects, library,
# programs and tests: release, static, clang, test (release with test hooks), asan, fuzz, cover.

VERSION := 0.1.0
BUILD ?= build
DEPS ?= build/deps
# sources to leave out, for whoever works while another's file does not compile
SKIP ?=

prefix ?= /usr/local
exec_prefix ?= $(prefix)
sbindir ?= $(exec_prefix)/sbin
datadir ?= $(prefix)/share
mandir ?= $(datadir)/man
docdir ?= $(datadir)/doc/sandbox-server
# the one place where the program looks for its settings, whatever the prefix
confdir ?= /etc
systemdunitdir ?= $(prefix)/lib/systemd/system
sysusersdir ?= $(prefix)/lib/sysusers.d
INSTALL ?= install

ifeq ($(origin CC),default)
CC := gcc
endif
CLANG ?= clang
CFLAGS ?= -O2
WERROR ?= 1
V ?= 0
Q := $(if $(filter 0,$(V)),@)
say = $(if $(filter 0,$(V)),@printf '  %-7s %s\n' $(1) $(2))

ARGS ?=
FUZZ_SECONDS ?= 60
# as root every test can run, so that a skipped one is a failure
TESTS_MUST_RUN ?= $(if $(filter 0,$(shell id -u)),1,0)
JOBS ?= $(shell nproc)
export TESTS_MUST_RUN CC MONGOOSE_DIR PARSON_DIR FUZZ_SECONDS

MAKEFLAGS += --no-builtin-rules --no-builtin-variables
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# ---- sources -----------------------------------------------------------------------------------

SRCS := $(filter-out $(SKIP),$(sort $(wildcard src/*.c src/*/*.c)))
# a shared object of their own, which the binary carries
OBJECT_SRCS := $(sort $(wildcard src/python/*.c))
OBJECT_PARTS := $(OBJECT_SRCS) $(sort $(wildcard src/launcher/child*.c)) src/launcher/clone.c \
	src/base/sys.c src/base/fdpass.c
HEADERS := $(sort $(wildcard src/*/*.h))
POLICIES := $(sort $(wildcard policy/*.json))
WEB := $(sort $(wildcard src/web/*))
MANUALS := $(sort $(wildcard man/*.[1-8]))
# not there where only the program is built, as in an image
UNITS := $(sort $(wildcard deploy/systemd/*.service deploy/systemd/*.socket))
TEST_C := $(sort $(wildcard tests/*/*.c))
TEST_H := $(sort $(wildcard tests/*.h tests/*/*.h))
SCRIPTS = $(sort $(shell git ls-files -co --exclude-standard 2>/dev/null | \
	while read -r f; do if [ -f "$$f" ] && head -n 1 "$$f" | \
	grep -qE '^\#! *(/usr)?/bin/(env )?(ba|da)?sh'; then echo "$$f"; fi; done))
DEPS_FILES := $(addprefix $(DEPS)/,mongoose.c mongoose.h parson.c parson.h)

# ---- flags -------------------------------------------------------------------------------------

MACHINE := $(shell uname -m)
is_clang = $(findstring clang,$(1))

# The same for mongoose.c and for whoever includes mongoose.h. http/admit.c refuses a body above
# SANDBOX_MAX_BODY_MB long before MG_MAX_RECV_SIZE; it must only not be lower.
MG_FLAGS := -DMG_MAX_HTTP_HEADERS=64 -DMG_SOCK_LISTEN_BACKLOG_SIZE=1024 -DMG_DATA_SIZE=64 \
	-DMG_MAX_RECV_SIZE=1077936128UL

WARN_FLAGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
	-Wformat=2 -Wundef $(if $(filter 1,$(WERROR)),-Werror)
OUR_FLAGS := -std=gnu17 -D_GNU_SOURCE= -DSANDBOX_VERSION='"$(VERSION)"' -Isrc \
	-isystem $(DEPS) $(MG_FLAGS)

ifneq ($(filter x86_64 i%86,$(MACHINE)),)
BRANCH_FLAGS := -fcf-protection=full
else ifeq ($(MACHINE),aarch64)
BRANCH_FLAGS := -mbranch-protection=standard
endif
# clang 14 wants a long-winded consent for zero; a pattern is as definite
HARDEN = -fPIE -fstack-protector-strong -fstack-clash-protection -fno-plt $(BRANCH_FLAGS) \
	-ftrivial-auto-var-init=$(if $(call is_clang,$(1)),pattern,zero) \
	-ffunction-sections -fdata-sections
FORTIFY := $(if $(filter -O0,$(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
HARDEN_LINK := -pie -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--gc-sections -Wl,--as-needed
OBJECT_FLAGS := -O2 -fPIC -shared -fvisibility=hidden -fstack-protector-strong $(BRANCH_FLAGS) \
	-Wl,-z,relro,-z,now,-z,noexecstack,-z,defs -Wl,--as-needed -s
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

VARIANTS := release static clang test asan fuzz cover
release_CC = $(CC)
release_FLAGS = $(CPPFLAGS) $(FORTIFY) $(call HARDEN,$(CC)) $(CFLAGS)
release_LINK = $(HARDEN_LINK) $(LDFLAGS)
# The linker's warning about the resolver is answered in src/main.c.
static_CC = $(CC)
static_FLAGS = $(release_FLAGS) -DSANDBOX_STATIC
static_LINK = -static-pie -Wl,--no-warnings $(filter-out -pie,$(HARDEN_LINK)) $(LDFLAGS)
clang_CC = $(CLANG)
clang_FLAGS = $(CPPFLAGS) $(FORTIFY) $(call HARDEN,clang) $(CFLAGS)
clang_LINK = $(HARDEN_LINK) $(LDFLAGS)
test_CC = $(CC)
test_FLAGS = $(release_FLAGS) -g -DSANDBOX_TEST_HOOKS
test_LINK = $(release_LINK)
asan_CC = $(CC)
asan_FLAGS = $(CPPFLAGS) -O1 -g -fPIE $(SANITIZE) -DSANDBOX_TEST_HOOKS
asan_LINK = -pie $(SANITIZE) $(LDFLAGS)
fuzz_CC = $(CLANG)
fuzz_FLAGS = $(subst =address,=fuzzer-no-link$(comma)address,$(asan_FLAGS))
fuzz_LINK = $(asan_LINK)
# Counters live in a file that every process maps (%c) and all of one program share (%m): they are
# there before a run is confined, in it, and after a process was killed.
COVER_DIR = $(abspath $(BUILD))/cover/profile
cover_CC = $(CLANG)
cover_FLAGS = $(CPPFLAGS) -O1 -g -fPIE -DSANDBOX_TEST_HOOKS -fcoverage-mapping \
	-fprofile-instr-generate=$(COVER_DIR)/%m%c.profraw -mllvm -runtime-counter-relocation
cover_LINK = -pie $(LDFLAGS)
comma := ,
LIBS := -lseccomp -lcap

# ---- a variant ---------------------------------------------------------------------------------

# Tests of these folders are programs; other .c files there are linked into each of them.
C_SUITES := unit policy launcher
suite_programs = $(patsubst %.c,$(BUILD)/$(1)/%,$(wildcard tests/$(2)/test_*.c))
suite_shared = $(filter-out tests/$(1)/test_%,$(wildcard tests/$(1)/*.c))
helper_programs = $(patsubst tests/helpers/%.c,$(BUILD)/$(1)/%,$(wildcard tests/helpers/*.c))
objects = $(patsubst %.c,$(BUILD)/$(1)/%.o,$(filter-out src/main.c $(OBJECT_SRCS),$(SRCS))) \
	$(addprefix $(BUILD)/$(1)/,policies.o web.o imports.o python.o mongoose.o parson.o)
replay_programs = $(patsubst tests/fuzz/fuzz_%.c,$(BUILD)/$(1)/tests/fuzz/replay_%,$(wildcard \
	tests/fuzz/fuzz_*.c))
test_programs = $(foreach s,$(C_SUITES),$(call suite_programs,$(1),$(s)))


# variant_rules VARIANT
define variant_rules
$(BUILD)/$(1)/%.o: %.c $(BUILD)/$(1)/flags $(DEPS_FILES) | deps
	$$(call say,CC,$$@)
	@mkdir -p $$(@D)
	$$Q$$($(1)_CC) $$(OUR_FLAGS) $$(WARN_FLAGS) $$($(1)_FLAGS) -MMD -MP -c -o $$@ $$<

$(BUILD)/$(1)/policies.o $(BUILD)/$(1)/web.o: $(BUILD)/$(1)/%.o: $(BUILD)/%.c \
		src/config/embedded.h $(BUILD)/$(1)/flags | deps
	$$(call say,CC,$$@)
	$$Q$$($(1)_CC) $$(OUR_FLAGS) $$($(1)_FLAGS) -c -o $$@ $$<

$(BUILD)/$(1)/imports.o: $(BUILD)/imports.c src/job/imports.h $(BUILD)/$(1)/flags | deps
	$$(call say,CC,$$@)
	$$Q$$($(1)_CC) $$(OUR_FLAGS) $$($(1)_FLAGS) -c -o $$@ $$<

# loaded into an interpreter: never sanitized or counted
$(BUILD)/$(1)/python.so: $(OBJECT_PARTS) $(HEADERS) $(BUILD)/$(1)/flags | deps
	$$(call say,OBJECT,$$@)
	$$Q$(CC) $$(OUR_FLAGS) $$(WARN_FLAGS) $$(OBJECT_FLAGS) \
		$$(filter -DSANDBOX_TEST_HOOKS,$$($(1)_FLAGS)) -o $$@ $(OBJECT_PARTS)

$(BUILD)/$(1)/python.c: $(BUILD)/$(1)/python.so src/setup/embed_object.sh
	$$Qsrc/setup/embed_object.sh $$< >$$@

$(BUILD)/$(1)/python.o: $(BUILD)/$(1)/python.c src/wire/ahead.h
	$$(call say,CC,$$@)
	$$Q$$($(1)_CC) $$(OUR_FLAGS) $$($(1)_FLAGS) -c -o $$@ $$<

$(BUILD)/$(1)/mongoose.o $(BUILD)/$(1)/parson.o: $(BUILD)/$(1)/%.o: $(DEPS)/%.c \
		$(DEPS_FILES) $(BUILD)/$(1)/flags | deps
	$$(call say,CC,$$@)
	$$Q$$($(1)_CC) -std=gnu17 -I$(DEPS) $$(MG_FLAGS) -w $$($(1)_FLAGS) -c -o $$@ $$<

$(BUILD)/$(1)/product.a: $(call objects,$(1))
	$$(call say,AR,$$@)
	@rm -f $$@
	$$Q ar -rcs $$@ $$^

$(BUILD)/$(1)/sandbox-server: $(BUILD)/$(1)/src/main.o $(BUILD)/$(1)/product.a
	$$(call say,LINK,$$@)
	$$Q$$($(1)_CC) $$($(1)_FLAGS) $$($(1)_LINK) -o $$@ $$^ $$(LIBS)

$(BUILD)/$(1)/tests/%.o: tests/%.c $(BUILD)/$(1)/flags | deps
	$$(call say,CC,$$@)
	@mkdir -p $$(@D)
	$$Q$$($(1)_CC) $$(OUR_FLAGS) -Itests $$(WARN_FLAGS) $$($(1)_FLAGS) -MMD -MP -c -o $$@ $$<

$(foreach s,$(C_SUITES),$(foreach p,$(call suite_programs,$(1),$(s)),
$(p): $(p).o $(patsubst %.c,$(BUILD)/$(1)/%.o,$(call suite_shared,$(s)))
))
$(call test_programs,$(1)): $(BUILD)/$(1)/product.a
	$$(call say,LINK,$$@)
	$$Q$$($(1)_CC) $$($(1)_FLAGS) $$($(1)_LINK) -o $$@ $$(filter %.o,$$^) \
		$(BUILD)/$(1)/product.a $$(LIBS)

$(call replay_programs,$(1)): $(BUILD)/$(1)/tests/fuzz/replay_%: \
		$(BUILD)/$(1)/tests/fuzz/fuzz_%.o $(BUILD)/$(1)/tests/fuzz/replay.o \
		$(BUILD)/$(1)/product.a
	$$(call say,LINK,$$@)
	$$Q$$($(1)_CC) $$($(1)_FLAGS) $$($(1)_LINK) -o $$@ $$^ $$(LIBS)

# what a test runs inside a sandbox: static, and never sanitized
$(call helper_programs,$(1)): $(BUILD)/$(1)/%: tests/helpers/%.c $(BUILD)/$(1)/flags | deps
	$$(call say,HELPER,$$@)
	$$Q$(CC) $$(OUR_FLAGS) $$(WARN_FLAGS) -O2 -static -o $$@ $$<

$(BUILD)/$(1)/flags: FORCE
	@mkdir -p $$(@D)
	@printf '%s\n' '$$($(1)_CC) $$(subst ','\'',$$(OUR_FLAGS)) $$(WARN_FLAGS) $$($(1)_FLAGS)' \
		'$$($(1)_LINK) $$(SRCS)' >$$@.new
	@cmp -s $$@.new $$@ && rm -f $$@.new || mv -f $$@.new $$@

-include $$(patsubst %.c,$(BUILD)/$(1)/%.d,$(SRCS) $(TEST_C))
endef
$(foreach v,$(VARIANTS),$(eval $(call variant_rules,$(v))))

$(BUILD)/policies.c: $(POLICIES) $(wildcard policy) src/setup/embed.sh
	@mkdir -p $(@D)
	$Qsrc/setup/embed.sh policies $(POLICIES) >$@

$(BUILD)/web.c: $(WEB) $(wildcard src/web) src/setup/embed.sh
	@mkdir -p $(@D)
	$Qsrc/setup/embed.sh web $(WEB) >$@

$(BUILD)/imports.c: src/job/imports.py src/setup/embed_text.sh
	@mkdir -p $(@D)
	$Qsrc/setup/embed_text.sh imports_script job/imports.h $< >$@

# ---- targets -----------------------------------------------------------------------------------

.PHONY: all run deps static clang test asan fuzz bench bench-full bench-filters lint lint-checks test-vm \
	test-image test-debian image images deb test-systemd install uninstall ci cover format clean distclean help FORCE \
	test-unit test-policy test-corpus test-launcher test-api test-attack test-environment \
	test-faults test-deploy $(addprefix lint-,$(LINT_CHECKS)) \
	packages

all: $(BUILD)/release/sandbox-server ## the hardened binary, build/release/sandbox-server

run: all ## set up, build, and serve on loopback:8080 (ARGS= are passed on)
	@exec $(BUILD)/release/sandbox-server serve $(ARGS)

# All that the goals need, at once: who has no rights here is told one line to type.
goal = $(filter $(1),$(MAKECMDGOALS))
PACKAGES := build $(if $(call goal,run),run) $(if $(call goal,clang ci),clang) \
	$(if $(call goal,cover),clang cover vm) \
	$(if $(call goal,test test-unit test-policy test-corpus test-launcher test-api \
		test-attack test-environment test-faults test-deploy test-vm test-debian asan cover \
		ci),test) \
	$(if $(call goal,lint lint-% format ci),lint) $(if $(call goal,fuzz),clang fuzz) \
	$(if $(call goal,bench bench-full),run bench) $(if $(call goal,test-vm test-systemd),vm) \
	$(if $(call goal,image images test-image),image) \
	$(if $(call goal,deb test-systemd),deb) $(if $(call goal,test-systemd),system) \
	$(if $(call goal,test-debian),debian)
packages: ## the Debian packages that the other goals need; nothing happens if all are there
	@src/setup/packages.sh $(PACKAGES)

deps: | packages ## mongoose and parson into build/deps
	@src/setup/deps.sh $(DEPS)

$(DEPS_FILES): | deps ;

static: $(BUILD)/static/sandbox-server ## the same without shared libraries, build/static/sandbox-server

clang: $(BUILD)/clang/sandbox-server ## the same binary by clang

# tests/run knows the suites' folders; what it needs built differs by suite
SUITES := unit policy corpus launcher api attack environment faults deploy
ASAN_SUITES := unit corpus launcher api
server_tests = $(BUILD)/$(1)/sandbox-server $(call helper_programs,$(1))
built_for = $(call server_tests,$(1)) $(call test_programs,$(1)) $(call replay_programs,$(1))

test: $(call built_for,test) | packages ## every test; each suite also as test-NAME
	@tests/run $(BUILD)/test $(SUITES)

test-unit: $(call suite_programs,test,unit)
test-policy: $(call suite_programs,test,policy)
test-corpus: $(call replay_programs,test)
test-launcher: $(call suite_programs,test,launcher) $(call server_tests,test)
test-api test-attack test-environment test-faults test-deploy: $(call server_tests,test)
$(addprefix test-,$(SUITES)): test-%: | packages
	@tests/run $(BUILD)/test $*

# a sanitizer forbids a few tests, and says so
asan: export TESTS_MUST_RUN := 0
asan: $(call built_for,asan) | packages ## unit, launcher and api tests under sanitizers
	@tests/run $(BUILD)/asan $(ASAN_SUITES)

# The table is printed whatever the tests say, and either can fail the goal. The first process
# makes the file of counters, which a plain user's may write too. Go's cache is filled anew, and
# faults have more time: that is code of ours too.
COVER_SUITES ?= $(SUITES)
COVER_VM ?= 1
cover: export TESTS_SLOW := 1
cover: export FAULT_SECONDS ?= 300
cover: export TESTS_GO_STATE := $(abspath $(BUILD))/cover/go-state
cover: $(call built_for,cover) | packages ## which lines the tests reach, as a table
	@rm -rf $(COVER_DIR) $(TESTS_GO_STATE) && mkdir -p $(COVER_DIR)
	@$(BUILD)/cover/sandbox-server --version >/dev/null && chmod a+rw $(COVER_DIR)/*
	@status=0; tests/run $(BUILD)/cover $(COVER_SUITES) || status=1; \
	[ "$(COVER_VM)" = 0 ] || tests/vm/run $(BUILD)/cover || status=1; \
	tests/cover $(BUILD)/cover || status=1; exit $$status

test-vm: $(call built_for,test) | packages ## the tests that need a kernel of their own
	@tests/vm/run $(BUILD)/test

test-image: | packages ## build every container image and the static binary, and use them
	@tests/image/run

test-debian: $(call server_tests,test) | packages ## sessions of a Debian image, in which root installs packages
	@tests/run $(BUILD)/test debian

# the flavours are targets of the Containerfile
FLAVOURS := python datascience golang node shell
FLAVOUR ?= python
BUILDAH ?= buildah
IMAGE_FLAGS ?=
image: | packages ## the container image; FLAVOUR=datascience, golang, node, shell: another
	$(BUILDAH) build --format docker --layers $(IMAGE_FLAGS) --build-arg VERSION=$(VERSION) \
		--target $(FLAVOUR) $(if $(filter python,$(FLAVOUR)),-t sandbox-server) \
		-t sandbox-server:$(FLAVOUR) -f Containerfile .

images: ## every flavour of it
	@for f in $(FLAVOURS); do $(MAKE) --no-print-directory image FLAVOUR=$$f || exit 1; done

deb: all | packages ## a Debian package in build, for a host with systemd (deploy/systemd/README.md)
	@src/setup/deb.sh $(VERSION) $(BUILD)

test-systemd: deb | packages ## install that package on a machine with systemd, in qemu, and use it
	@tests/systemd/run $(BUILD)/sandbox-server_$(VERSION)-1_*.deb $(BUILD)

FUZZERS := $(patsubst tests/fuzz/fuzz_%.c,$(BUILD)/fuzz/fuzz_%,$(wildcard tests/fuzz/fuzz_*.c))
$(FUZZERS): $(BUILD)/fuzz/fuzz_%: $(BUILD)/fuzz/tests/fuzz/fuzz_%.o $(BUILD)/fuzz/product.a
	$(call say,LINK,$@)
	$Q$(fuzz_CC) $(fuzz_FLAGS) -fsanitize=fuzzer $(fuzz_LINK) -o $@ $^ $(LIBS)

fuzz: $(FUZZERS) | packages ## each fuzz harness for FUZZ_SECONDS, new inputs in build/fuzz
	@for f in $(FUZZERS); do \
		name=$${f##*/fuzz_}; new=$(BUILD)/fuzz/corpus/$$name; old=tests/fuzz/corpus/$$name; \
		mkdir -p "$$new"; [ -d "$$old" ] || old=; echo "== $$name"; \
		"$$f" -max_total_time=$(FUZZ_SECONDS) -timeout=10 -print_final_stats=1 \
			-artifact_prefix=$(BUILD)/fuzz/$$name- "$$new" $$old || exit 1; \
	done

# What measures: a driver, the launcher without HTTP, the shortest program, an installer, the
# filters.
BENCH_PROGRAMS := $(addprefix $(BUILD)/bench/,drive alone true uv filters)
$(BENCH_PROGRAMS): $(BUILD)/bench/%: tests/bench/%.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$Q$(CC) $(OUR_FLAGS) $(WARN_FLAGS) -O2 -o $@ $^ $(BENCH_LINK)
$(BUILD)/bench/drive: BENCH_LINK := -lpthread
$(BUILD)/bench/true $(BUILD)/bench/uv: BENCH_LINK := -static
$(BUILD)/bench/alone $(BUILD)/bench/filters: BENCH_LINK := $(LIBS)
$(BUILD)/bench/alone: $(BUILD)/release/product.a
$(BUILD)/bench/filters: tests/policy/bpf.c tests/policy/reference.c $(BUILD)/release/product.a

# the test variant tells how long each step of a sandbox takes
BENCH_NEEDS := all $(BENCH_PROGRAMS) $(BUILD)/test/sandbox-server
bench: $(BENCH_NEEDS) | packages ## measure, in minutes; to build/bench.json and bench.svg
	@tests/bench/run $(BUILD)

bench-full: $(BENCH_NEEDS) | packages ## the same with more rounds and 10 000 runs in a row
	@BENCH=full tests/bench/run $(BUILD)

bench-filters: $(BUILD)/bench/filters | packages ## what seccomp filters cost, beside libseccomp's
	@$<

# ---- lint

LINT_CHECKS := format tidy analyzer cppcheck shell man layers banned child_symbols hooks manual \
	hosts selftest
OUR_C := $(SRCS) $(HEADERS) $(TEST_C) $(TEST_H)
LINT_CC ?= gcc
LINT_FLAGS := -DSANDBOX_TEST_HOOKS
stamps = $(patsubst %.c,$(BUILD)/lint/%.$(1),$(SRCS))

lint: ## format, clang-tidy, gcc -fanalyzer, cppcheck, shellcheck, mandoc and tests/lint
	@$(MAKE) --no-print-directory -k -j$(JOBS) lint-checks
	@echo 'lint: nothing found'

lint-checks: $(addprefix lint-,$(LINT_CHECKS))
$(addprefix lint-,$(LINT_CHECKS)): | packages

lint-format:
	$(call say,LINT,format)
	$Qclang-format --dry-run -Werror $(OUR_C)

# how many states of a function clang's analyzer looks at; most of its time is in the last ones
LINT_NODES ?= 225000
to_clang = $(foreach word,$(1),--extra-arg=-Xclang --extra-arg=$(word))
lint-tidy: $(call stamps,tidy)
$(call stamps,tidy): $(BUILD)/lint/%.tidy: %.c $(HEADERS) .clang-tidy $(DEPS_FILES) | packages
	$(call say,TIDY,$<)
	@mkdir -p $(@D)
	$Qclang-tidy --quiet $(call to_clang,-analyzer-config max-nodes=$(LINT_NODES)) $< \
		-- $(OUR_FLAGS) $(LINT_FLAGS) >$@.out 2>/dev/null || { cat $@.out; exit 1; }
	@mv $@.out $@

# at -O0: what the optimizer does to loops, gcc 12's analyzer takes for leaks
lint-analyzer: $(call stamps,analyzer)
$(call stamps,analyzer): $(BUILD)/lint/%.analyzer: %.c $(HEADERS) $(DEPS_FILES) | packages
	$(call say,ANALYZE,$<)
	@mkdir -p $(@D)
	$Q$(LINT_CC) -O0 -fanalyzer -Werror $(OUR_FLAGS) $(WARN_FLAGS) $(LINT_FLAGS) -c -o $@ $<

lint-cppcheck:
	$(call say,LINT,cppcheck)
	@mkdir -p $(BUILD)/lint/cppcheck
	$Qcppcheck --quiet --std=c11 --language=c -j$(JOBS) --error-exitcode=1 --inline-suppr \
		--enable=warning,performance,portability --suppress=missingIncludeSystem \
		--suppress=unknownMacro --cppcheck-build-dir=$(BUILD)/lint/cppcheck \
		-D__linux__ -D__$(MACHINE)__ -D_GNU_SOURCE -DSANDBOX_VERSION='""' -Isrc $(SRCS)

lint-shell:
	$(call say,LINT,shellcheck)
	$Qshellcheck $(SCRIPTS)

lint-man:
	$(call say,LINT,mandoc)
	$Q$(if $(MANUALS),mandoc -T lint -W warning $(MANUALS))

lint-child_symbols lint-hooks: lint-%: $(call objects,release)
	$(call say,LINT,$*)
	$Qtests/lint/$* $(BUILD)/release/src

lint-layers lint-banned lint-manual lint-hosts lint-selftest: lint-%:
	$(call say,LINT,$*)
	$Qtests/lint/$*

format: | packages ## put all sources into the form of .clang-format
	clang-format -i $(OUR_C)

# ---- and the rest

ci: ## lint, both compilers, tests, sanitizers
	@$(MAKE) lint
	@$(MAKE) -j$(JOBS) all clang
	@$(MAKE) -j$(JOBS) test
	@$(MAKE) -j$(JOBS) asan

install: all ## honours DESTDIR, prefix, sbindir, mandir, datadir, docdir, systemdunitdir, ...
	$(INSTALL) -d $(DESTDIR)$(sbindir) $(DESTDIR)$(datadir)/sandbox-server/policy \
		$(DESTDIR)$(docdir)
	$(INSTALL) -m 755 $(BUILD)/release/sandbox-server $(DESTDIR)$(sbindir)/
	$(INSTALL) -m 644 LICENSE $(DESTDIR)$(docdir)/
	for f in $(POLICIES); do \
		$(INSTALL) -m 644 "$$f" $(DESTDIR)$(datadir)/sandbox-server/policy/ || exit 1; done
	for f in $(MANUALS); do d=$(DESTDIR)$(mandir)/man$${f##*.}; \
		$(INSTALL) -d "$$d" && $(INSTALL) -m 644 "$$f" "$$d/" || exit 1; done
	$(if $(UNITS),$(install_units))

# Settings that are there already stay. The units name the program where it is.
define install_units
$(INSTALL) -d $(DESTDIR)$(systemdunitdir) $(DESTDIR)$(sysusersdir) $(DESTDIR)$(confdir) \
		$(DESTDIR)$(docdir)/examples
	for f in $(UNITS); do \
		sed 's|=/usr/sbin/|=$(sbindir)/|' "$$f" >$(DESTDIR)$(systemdunitdir)/$${f##*/} && \
		chmod 644 $(DESTDIR)$(systemdunitdir)/$${f##*/} || exit 1; done
	$(INSTALL) -m 644 deploy/systemd/sysusers.conf $(DESTDIR)$(sysusersdir)/sandbox-server.conf
	$(INSTALL) -m 644 deploy/systemd/as-root.conf $(DESTDIR)$(docdir)/examples/
	[ -e $(DESTDIR)$(confdir)/sandbox-server.conf ] || $(INSTALL) -m 644 \
		deploy/systemd/sandbox-server.conf $(DESTDIR)$(confdir)/
endef

uninstall: ## take away what install put there, but settings that were changed
	rm -f $(DESTDIR)$(sbindir)/sandbox-server $(DESTDIR)$(sysusersdir)/sandbox-server.conf
	rm -f $(foreach f,$(UNITS),$(DESTDIR)$(systemdunitdir)/$(notdir $(f)))
	rm -f $(foreach f,$(MANUALS),$(DESTDIR)$(mandir)/man$(subst .,,$(suffix $(f)))/$(notdir $(f)))
	rm -rf $(DESTDIR)$(datadir)/sandbox-server $(DESTDIR)$(docdir)
	! cmp -s deploy/systemd/sandbox-server.conf $(DESTDIR)$(confdir)/sandbox-server.conf || \
		rm -f $(DESTDIR)$(confdir)/sandbox-server.conf

clean: ## everything built; build/deps stays
	rm -rf $(filter-out $(DEPS),$(wildcard $(BUILD)/*))

distclean: ## build/deps too
	rm -rf $(BUILD) $(DEPS)

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | sort | expand -t 14

FORCE: ;
