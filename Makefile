# DECK: build, run, test and install. `make` alone lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help deps test-deps build web test-web bench-web demo test lint test-workspace loom fuzz miri install uninstall test-compare compare

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
# Products lie where Cargo is told to put them.
TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
OLDEST_RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# On a CI machine the versions that were committed are the ones that are tested.
LOCKED := $(if $(CI),--locked)

PICTURE := mandelbrot.png
DEMO = $(RELEASE)/deck run -n 4 $(RELEASE)/mandelbrot \
	--size 600x600 --max-iter 17500 --slices 64 --threads 2 --out $(PICTURE)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what is missing to build: C and C++ compilers, pkg-config
	@scripts/prerequisites

web: deps ## build the page of the browser tool, which the command takes in
	@scripts/web build

build: deps web ## build the command, the C library and the applications, for release
	$(CARGO) build --release --workspace $(LOCKED)

demo: deps ## draw the Mandelbrot set with four nodes and leave mandelbrot.png
	$(CARGO) build --release -p deck-cli -p mandelbrot $(LOCKED)
	@rm -f $(PICTURE)
	@echo '$$ $(strip $(DEMO))'
	@$(DEMO)
	@test -s $(PICTURE) || { echo "make demo: the run ended well but left no $(PICTURE)" >&2; exit 1; }
	@echo "The picture is $(CURDIR)/$(PICTURE)"

test-deps: ## install what tests need besides: POV-Ray, the library of hwloc, rustfmt, clippy
	@scripts/prerequisites tests

# Cheap steps first. The tests of real processes run the release build, so it comes before them; what `cargo test`
# says comes last.
TEST_STEPS := deps test-deps lint build test-web loom fuzz test-compare test-workspace

test: ## run every test, stop at the first failure
	@for step in $(TEST_STEPS); do \
		echo "== make $$step"; \
		$(MAKE) --no-print-directory $$step || { \
			echo "make test: stopped at '$$step'; repeat with: make $$step" >&2; exit 1; }; \
	done

# The files whose first line names this interpreter, with or without an ending of their names; also where there is no git.
scripts_of = grep -rInE '^\#!' --exclude-dir=.git --exclude-dir=target --exclude-dir=node_modules --exclude-dir=.peers . | sed -n 's/:1:\#!.*$(1)$$//p'

lint: ## check the formatting, the scripts, what clippy finds, and links of the documentation in sources
	$(CARGO) fmt --all --check
	@$(call scripts_of,sh) | while read -r script; do bash -n "$$script"; done
	@if command -v python3 >/dev/null; then $(call scripts_of,python3) | while read -r script; do \
		python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$$script"; done; fi
	@# Its lock file follows the dependencies of our packages, and nothing else here would notice that it is left behind.
	@$(CARGO) metadata --manifest-path fuzz/Cargo.toml --locked --format-version 1 >/dev/null
	$(CARGO) clippy --workspace --all-targets $(LOCKED) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps $(LOCKED)
	@# What stands in for the system under Miri, which is not everywhere, is to have the calls of the real one.
	RUSTFLAGS="--cfg miri" CARGO_TARGET_DIR=$(TARGET)/miri-check $(CARGO) check $(MIRI_TESTS) $(LOCKED)
	@# What a newer compiler takes and the oldest that the README promises does not, nothing but that one tells.
	@if ! RUSTUP_AUTO_INSTALL=0 $(CARGO) +$(OLDEST_RUST) --version >/dev/null 2>&1; then \
		echo "make lint: Rust $(OLDEST_RUST) is not installed, so not tried (rustup toolchain install $(OLDEST_RUST) --profile minimal)"; \
	else \
		set -x; CARGO_TARGET_DIR=$(TARGET)/oldest $(CARGO) +$(OLDEST_RUST) check --workspace --all-targets $(LOCKED); \
	fi
	@# The MPI twins compile files of the applications, which know nothing of it.
	CARGO_TARGET_DIR=$(TARGET)/twins $(CARGO) check --manifest-path bench/twins/kernels/Cargo.toml $(LOCKED)

test-web: ## test the page of the browser tool in Chromium (part of `make test`)
	@scripts/web test

bench-web: ## measure how smooth the browser tool is in a large model; needs make build
	@scripts/web bench

test-workspace: ## run the tests and examples of all packages (part of `make test`)
	$(CARGO) test --workspace $(LOCKED)

test-compare: ## test what bench/compare and bench/papers make of figures, and the MPI twins (part of `make test`)
	@if python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		cd bench && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=. timeout 300 python3 -m unittest discover --buffer --start-directory tests; \
	else \
		echo "make test-compare: skipped, bench/compare needs Python 3.11 or newer"; \
	fi

compare: deps ## compare DECK with its peers on this machine (two to three hours; COMPARE=--quick: 5 minutes)
	bench/compare $(COMPARE)

# Whoever writes crates/<name>/tests/loom_<idea>.rs is taken in.
LOOM_MODELS := $(wildcard crates/*/tests/loom_*.rs)
LOOM_FOLDERS := $(sort $(foreach model,$(LOOM_MODELS),$(word 2,$(subst /, ,$(model)))))
LOOM_PACKAGES := $(foreach folder,$(LOOM_FOLDERS),-p $(if $(filter deck,$(folder)),deck,deck-$(folder)))

# Models want speed and all assertions, and gain nothing from link-time optimisation. Another --cfg rebuilds every
# dependency: a folder of its own keeps the two worlds from evicting one another.
loom: ## run the lock-free parts under the model checker
	@test -n "$(LOOM_MODELS)" || { echo "make loom: no model found at crates/*/tests/loom_*.rs" >&2; exit 1; }
	RUSTFLAGS="--cfg loom -D warnings" CARGO_TARGET_DIR=$(TARGET)/loom \
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
	$(CARGO) test --release $(LOOM_PACKAGES) $(LOCKED) --test 'loom*'

# What lets the fuzzer see which code an input comes to, and which values are compared there: as cargo-fuzz does it. Only the
# sanitizers would need a nightly toolchain.
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-trace-compares \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
FUZZ_TARGETS ?= $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_RUNS ?= 5000
FUZZ_FOLDER := $(TARGET)/fuzz
FUZZ_SEEDS := $(FUZZ_FOLDER)/seeds
# Build scripts are not fuzzed, which a build for a target that is named tells from what is.
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_PRODUCTS = $(FUZZ_FOLDER)/$(FUZZ_HOST)/debug

fuzz: ## fuzz each decoder FUZZ_RUNS times (part of `make test`; FUZZ_TARGETS=slots for one of them)
	RUSTFLAGS="$(FUZZ_FLAGS)" CARGO_TARGET_DIR=$(FUZZ_FOLDER) \
		$(CARGO) build --manifest-path fuzz/Cargo.toml --target $(FUZZ_HOST) $(LOCKED)
	@# Some targets take nothing shorter than a kilobyte, which an empty beginning would not grow to.
	@rm -rf $(FUZZ_SEEDS) && mkdir -p $(FUZZ_SEEDS)
	@(head -c 4096 /dev/zero; head -c 258048 /dev/urandom) | split -b 4096 - $(FUZZ_SEEDS)/
	@for target in $(FUZZ_TARGETS); do \
		mkdir -p $(FUZZ_FOLDER)/corpus/$$target; \
		$(FUZZ_PRODUCTS)/$$target -runs=$(FUZZ_RUNS) -timeout=60 -artifact_prefix=$(FUZZ_FOLDER)/ \
			$(FUZZ_FOLDER)/corpus/$$target $(FUZZ_SEEDS) > $(FUZZ_FOLDER)/log 2>&1 || { \
			tail -n 40 $(FUZZ_FOLDER)/log >&2; \
			echo "make fuzz: $$target failed; repeat with: $(FUZZ_PRODUCTS)/$$target $$(sed -n \
				's/^.*Test unit written to //p' $(FUZZ_FOLDER)/log | tail -n 1)" >&2; exit 1; }; \
		! grep 'no interesting inputs' $(FUZZ_FOLDER)/log >&2 || { \
			echo "make fuzz: $$target has taken none of its inputs" >&2; exit 1; }; \
		echo "$$target: $$(sed -n 's/^Done \([0-9]* runs\).*/\1/p' $(FUZZ_FOLDER)/log), $$(ls \
			$(FUZZ_FOLDER)/corpus/$$target | wc -l) inputs that come to different code"; \
	done

# Miri has no mapped memory, sockets or other processes: tests that need these say that Miri ignores them, and segments
# are plain memory (crates/segment/src/memory/interpreted.rs). Its emulation of weak memory, which knows no words that are
# used in two sizes, is off: orders of events are what loom looks at.
MIRI_TESTS := -p deck-sync -p deck-segment -p deck-transport -p deck-mudeck -p deck-c --lib
MIRI_RING_TESTS := -p deck-transport --test parcel --test conformance
MIRI := MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-disable-weak-memory-emulation $(MIRIFLAGS)" PROPTEST_CASES=2 \
	$(CARGO) +nightly miri

miri: ## run tests of unsafe code under Miri (11 minutes); skipped where it is not installed
	@if ! RUSTUP_AUTO_INSTALL=0 $(CARGO) +nightly miri --version >/dev/null 2>&1; then \
		echo "make miri: skipped, Miri is not installed (rustup toolchain install nightly --component miri)"; \
	else \
		set -x; $(MIRI) test $(MIRI_TESTS) && $(MIRI) test $(MIRI_RING_TESTS); \
	fi

# Paths may have any characters: the script gets them in the environment, where no shell takes them apart.
INSTALL = PREFIX='$(subst ','\'',$(PREFIX))' DESTDIR='$(subst ','\'',$(DESTDIR))' \
	RELEASE='$(subst ','\'',$(RELEASE))' VERSION='$(VERSION)' scripts/install

# `sudo make install` after `make build` works where root has no Cargo.
install: ## install command, libraries and header under PREFIX (default /usr/local), below DESTDIR if given
	@if command -v $(CARGO) >/dev/null; then $(MAKE) --no-print-directory build; fi
	@$(INSTALL)

uninstall: ## remove what make install has put there, with the same PREFIX and DESTDIR
	@$(INSTALL) --remove
