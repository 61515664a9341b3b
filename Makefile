# The only entry point for commands. `make` lists them.
#
#   ARGS      arguments of `platform standalone`, for example ARGS="--listen 127.0.0.1:9000", of the benchmark, or of
#             cargo-mutants
#   DATA_DIR  the data folder of `up` and `down`; --data-dir in ARGS comes first

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help up down test check soak bless fmt lint doc bench fuzz mutants build tools formatted deny

DATA_DIR ?= .data
PLATFORM := $(or $(CARGO_TARGET_DIR),target)/release/platform
DEBUG := $(or $(CARGO_TARGET_DIR),target)/debug
# The tests inject faults. One selection of crates and features for all commands: nothing is built twice.
EVERYTHING := --workspace --all-targets --features platform/fault

ifeq ($(CI),true)
export CARGO_INCREMENTAL := 0
# What failed is to be seen among what a platform tells that is made to panic.
export RUST_BACKTRACE := 0
# Tests wait for the platform's own code. Optimised a little, that takes longer to compile, once.
export CARGO_PROFILE_DEV_OPT_LEVEL := 1
NEXTEST := --profile ci
endif

# Sets data_dir to the last --data-dir in ARGS, else to DATA_DIR.
define find_data_dir
data_dir='$(DATA_DIR)'; set -- $(ARGS); \
while [ $$# -gt 0 ]; do \
	case $$1 in --data-dir=*) data_dir=$${1#*=} ;; --data-dir) data_dir=$${2:-} ;; esac; shift; \
done
endef

help: ## list the commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 15

up: ## build the platform and run it here, until Ctrl-C
	@deploy/setup
	@cargo build --release -p platform
	@set -- $(ARGS); \
	case " $$*" in *' --data-dir'*) ;; *) set -- --data-dir '$(DATA_DIR)' "$$@" ;; esac; \
	exec $(PLATFORM) standalone "$$@"

down: ## stop the platform that `make up` started
	@[ -x $(PLATFORM) ] || { echo 'nothing was built yet, so nothing runs: start with `make up`'; exit 0; }; \
	$(find_data_dir); exec $(PLATFORM) stop --data-dir "$$data_dir"

test: tools formatted lint doc deny build ## everything that CI checks, with all tests
	tests/with-platform cargo nextest run $(NEXTEST) $(EVERYTHING)

check: tools formatted lint doc deny ## the same without the crate `tests`, which starts whole platforms
	cargo nextest run $(NEXTEST) $(EVERYTHING) -E 'not package(tests)'

soak: tools build ## 100,000 commands and 1,000 logins while nodes die, 10,000 reads of what was written, Schemathesis with all operations; with the leases of users
	PLATFORM_REAL_TIMES=1 CHAOS_COMMANDS=100000 INDEX_ROUNDS=10000 LOGINS=1000 SCHEMATHESIS_ALL=1 cargo nextest run $(EVERYTHING) \
		-E 'package(tests) & test(/^(fault::(chaos|logins)|api::(index|schemathesis))::/)'

bless: tools ## accept the generated files
	@trap 'rm -f deploy/schema.sql.new' EXIT; \
	cargo run -q -p platform --features fault -- schema > deploy/schema.sql.new; \
	mv deploy/schema.sql.new deploy/schema.sql
	BLESS=1 cargo nextest run $(EVERYTHING) --no-tests=pass -E 'package(tests) & test(/^table::surface::/)'
	@git --no-pager diff --stat -- deploy tests

fmt: ## format the code
	cargo fmt --all

lint: ## run clippy on everything
	cargo clippy $(EVERYTHING),platform/kinds -- -D warnings

doc: ## build the code's documentation, private items too
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --features platform/fault --no-deps --document-private-items

bench: ## measure; prints tables; ARGS="search 1000000", ARGS="people 1000000", ARGS="rebuild 1000000", ARGS=commands, replay, generations, apart, tokens, logins, passwords, enumeration, requests, index, nodes, parking, tenants, settings, providers, actions, fair or kinds measures a part
	@deploy/setup
	cargo build --release -p platform -p tests --bins $(if $(filter kinds,$(ARGS)),--features platform/kinds)
	$(dir $(PLATFORM))bench $(ARGS)

fuzz: ## feed it what nobody would send, a minute each kind; ARGS=body takes one kind, FUZZ_SECONDS another time
	cargo build --workspace --features platform/fault --bin fuzz
	$(DEBUG)/fuzz $(ARGS)

# What is mutated, and how, stands in .cargo/mutants.toml. One at a time: a mutant that takes long must not slow another.
mutants: ## break the pure code, line by line, and name what no test notices; ARGS="-p domain" takes one crate
	@PLATFORM_SETUP_TOOLS=mutants deploy/setup
	cargo mutants --jobs 1 $(ARGS)

# The tests start the program.
build:
	cargo build $(EVERYTHING)

tools:
	@PLATFORM_SETUP_TOOLS=1 deploy/setup

formatted:
	cargo fmt --all --check

# Advisories are left out: their database needs a network.
deny:
	cargo deny check bans licenses sources
