# The two commands are `make run` and `make test`; the rest is beside them.
# Build output and peers live outside the clone and are shared between clones.
cache := $(or $(STATEWARD_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/stateward)
export STATEWARD_CACHE := $(cache)
export CARGO_TARGET_DIR ?= $(cache)/target
cargo := cargo --locked
# The product's tests need fail points and the probe route.
suites := --locked --workspace --all-features

.PHONY: help run test soak bench lint peers setup generate
help: ## What there is
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: ## Build (release) and start `stateward serve` on embedded defaults; ARGS="--listen ..." adds flags
	@scripts/run $(ARGS)

test: setup peers lint ## Everything: lint, generated files, directions, all tests
	$(cargo) xtask test $(suites)

# One suite after the other: the limits of time that acceptance lines name are asserted here.
soak: setup peers ## The same tests at the full counts of the acceptance lines
	STATEWARD_SCALE=full cargo test $(suites) --no-fail-fast

bench: setup peers ## Speed, as ratios in one run
	$(cargo) run --release --package bench

lint: setup ## Format, clippy, directions and banned crates, sizes, generated files
	$(cargo) fmt --all --check
	$(cargo) clippy --workspace --all-features --all-targets -- -D warnings
	$(cargo) clippy --package stateward -- -D warnings
	$(cargo) xtask directions
	$(cargo) xtask lint-sizes
	$(cargo) xtask generate --check

generate: setup ## Write the generated files anew
	$(cargo) xtask generate

peers: setup ## The real programs that tests run against
	@peers/build >/dev/null

setup:
	@scripts/setup
