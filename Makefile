# What a person can ask of this repository. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
# The same flags as the testbed is built with, so that nothing is compiled twice.
GO := cd tests/testbed && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS='-trimpath -gcflags=all=-dwarf=false' go

# What the page of `kubectl mcs ui` is built and tested with.
UI := npm --silent --prefix cli/ui

# KEEP=1 leaves the demo running.
KEEP ?=
# ONLY=webhook measures that part, ONLY="controller start" a group of one. ONLY=networks plays that step of e2e.
ONLY ?=
# The random simulations of `make test` are always these; `make long` looks at new ones.
SEED ?= 1645
# T=600 soaks, or fuzzes each target, for ten minutes.
T ?=
# Where everything that a release publishes is.
DIST ?= dist
# DRAFT=1 makes a release from any state of the work tree, to look at it.
DRAFT ?=
# ALL=1 runs the slow tests too, as CI does on main and each night.
ALL ?=
# How many test programs `make test` runs at one time: two, or one where others keep the cores busy. JOBS=1 is for little memory: two
# take up to 12 GB.
JOBS ?=

# REGISTRY=registry.example/team is where `make push` pushes to.
REGISTRY ?=
# TRIPLE=aarch64-unknown-linux-gnu makes images for other machines than this one; docs/images.md says what that takes.
TRIPLE ?=

# The commands that must be there, and how to get them: $(call need,command,how)
need = command -v $(1) >/dev/null || { echo "$(1) is missing: $(2)" >&2; exit 1; }

.PHONY: help demo unit test e2e soak upgrade long conformance bench fuzz image image-check image-tools push release lint msrv deny pure page manifests ui ui-packages krew testbed rust go

help: ## List the commands
	@echo "causeway: one Service, reachable from many clusters"; echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: rust go ## Show the whole way on real API servers (KEEP=1 leaves it running)
	$(CARGO) build --workspace --bin demo
	$(TARGET)/debug/demo $(if $(KEEP),--keep)

unit: rust ## Run the tests that need neither Go nor a cluster
	$(CARGO) test --workspace --lib --bins --test rules --no-run
	@begun=$$SECONDS; PROPTEST_RNG_SEED=$(SEED) $(CARGO) test --quiet --workspace --lib --bins --test rules; echo "make unit: $$((SECONDS - begun)) s"

# One build for everything: the programs that the tests start, and the tests. Cargo chooses features for what it is asked for, so `--bins`
# alone would build some of it a second time. prepare-testbed comes out of it too.
test: rust go ## Run the tests, unit to multi-cluster (ALL=1 the slow ones too, JOBS=1 test program at one time)
	$(CARGO) build --workspace --all-targets
	$(TARGET)/debug/prepare-testbed
	@CAUSEWAY_BIN_DIR=$(abspath $(TARGET))/debug PROPTEST_RNG_SEED=$(SEED) CARGO=$(CARGO) ALL=$(ALL) JOBS=$(JOBS) tests/run

e2e: rust go image ## Run causeway from its images on real nodes, as root: Helm, pods, drains
	$(CARGO) build --workspace --bins
	CAUSEWAY_BIN_DIR=$(abspath $(TARGET))/debug $(TARGET)/debug/e2e $(TARGET)/images $(ONLY)

soak: rust go testbed ## Churn and faults against an oracle for T=600 seconds
	$(CARGO) build --workspace --bins
	CAUSEWAY_SOAK=$(or $(T),600) $(CARGO) test --workspace --test soak -- --include-ignored --nocapture

# The version before is built once, from its commit.
upgrade: rust go testbed ## Upgrade from the version before and go back, under traffic (T=600 goes to and fro)
	@$(call need,git,install git; on Debian: apt-get install git)
	$(CARGO) build --workspace --bins
	$(if $(T),CAUSEWAY_SOAK=$(T)) $(CARGO) test --workspace --test upgrade -- --include-ignored --nocapture

long: rust go testbed ## Run the long forms of the other tests (T=600 seconds or so, each)
	$(CARGO) build --workspace --bins
	CAUSEWAY_SOAK=$(or $(T),600) $(CARGO) test --workspace --lib rotation::properties
	PROPTEST_CASES=16000 $(CARGO) test --workspace --lib -- simulation::a_restart_while simulation::after_an_outage
	PROPTEST_CASES=2000 $(CARGO) test --workspace --lib simulation
	CAUSEWAY_SOAK=$(or $(T),600) $(CARGO) test --workspace --test seeds
	CAUSEWAY_SOAK=$(or $(T),600) $(CARGO) test --workspace --test rules large
	CAUSEWAY_SOAK=$(or $(T),600) $(CARGO) test --workspace --test rolling --test handover -- --include-ignored --nocapture
	CAUSEWAY_SOAK=$(or $(T),600) $(CARGO) test --workspace --test matrix no_fault -- --include-ignored --nocapture
	CAUSEWAY_SOAK=$(or $(T),600) $(CARGO) test --workspace --test faults -- --include-ignored --nocapture karmada renewed_tokens
	CAUSEWAY_SOAK=$(or $(T),600) $(CARGO) test --workspace --test packets -- --include-ignored --nocapture near:: tunnel::
	CAUSEWAY_SOAK=$(or $(T),600) $(CARGO) test --workspace --test upgrade -- --ignored --nocapture
	$(MAKE) e2e

# SUITE=DIR is a checkout of kubernetes-sigs/mcs-api, CONTEXTS=a,b the clusters of the kubeconfig that it uses.
conformance: go ## Run the suite of kubernetes-sigs/mcs-api, SUITE=DIR, on clusters that causeway serves, CONTEXTS=a,b
	@tests/conformance "$(SUITE)" "$(CONTEXTS)"

bench: rust go testbed ## Measure, most figures beside a floor (ONLY=webhook for a part), on a quiet machine
	$(CARGO) build --release --workspace --bin causeway-bench --bin causeway-webhook --bin causeway-controller --bin causeway-tunnel --bin causeway-agent --bin kubectl-mcs
	$(TARGET)/release/causeway-bench $(ONLY)

fuzz: rust ## Look for inputs that break a promise (T=60 seconds a target, ONLY=envelope for one)
	@$(call need,c++,install a C++ compiler; on Debian: apt-get install build-essential)
	@$(call need,cargo-fuzz,cargo install --locked cargo-fuzz)
	@$(CARGO) +nightly --version >/dev/null 2>&1 || { echo "the nightly toolchain is missing: rustup toolchain install nightly" >&2; exit 1; }
	@fuzz/run $(or $(T),60) $(or $(ONLY),envelope admission decoding planning watching)

image: rust ## Make the OCI images and their SBOMs, without a daemon
	@$(call need,git,install git; on Debian: apt-get install git)
	@$(call need,cargo-auditable,cargo install --locked cargo-auditable)
	$(CARGO) build --locked --package causeway-xtask
	CARGO=$(CARGO) $(TARGET)/debug/xtask build-images $(if $(TRIPLE),--target $(TRIPLE))

image-check: image-tools image ## Make the images a second time, validate them, and run them confined
	@xtask/images/check $(TARGET)/images

# Asked for before the images, which take minutes.
image-tools:
	@for tool in jq runc skopeo umoci; do $(call need,$$tool,on Debian: apt-get install $$tool); done
	@$(call need,crane,go install github.com/google/go-containerregistry/cmd/crane@latest)

push: image ## Push the images to REGISTRY=registry.example/team
	@[ -n "$(REGISTRY)" ] || { echo "name a registry: make push REGISTRY=registry.example/team" >&2; exit 1; }
	@$(call need,skopeo,on Debian: apt-get install skopeo)
	@xtask/images/push $(TARGET)/images $(REGISTRY)

release: rust go ## Make everything that a release publishes in DIST=dist, with checksums (DRAFT=1 from any work tree)
	@$(call need,git,install git; on Debian: apt-get install git)
	@CARGO=$(CARGO) DIST=$(DIST) DRAFT=$(DRAFT) TRIPLE=$(TRIPLE) xtask/release/make

# Where Clippy is the compiler, as in CI, the build is the check.
CLIPPY := $(if $(RUSTC_WORKSPACE_WRAPPER),build --workspace --all-targets,clippy --workspace --all-targets -- -D warnings)

# Everything is built, as `make test` does: for a program alone Cargo would choose other features, and compile dependencies again.
# `go vet` analyses all that a program imports, hundreds of packages for the few lines that start a program of Kubernetes: those are
# left to the compiler.
lint: rust go pure page ## Check formats, lints, documents, generated files, licences and sources
	$(CARGO) fmt --all --check
	$(CARGO) $(CLIPPY)
	$(CARGO) build --workspace --all-targets
	$(TARGET)/debug/xtask generate-manifests --check
	CAUSEWAY_BIN_DIR=$(abspath $(TARGET))/debug $(CARGO) test --quiet --workspace --test documents -- --nocapture
	@unformatted=$$(gofmt -l tests/testbed tests/health tests/konnectivity tests/external-dns); [ -z "$$unformatted" ] || { echo "gofmt -w $$unformatted" >&2; exit 1; }
	$(GO) vet ./pod ./reaper
	$(GO) vet -C ../health .
	@if command -v actionlint >/dev/null; then actionlint; \
	else echo "skipped, the workflow: get actionlint with 'go install github.com/rhysd/actionlint/cmd/actionlint@latest'"; fi
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --workspace check --hide-inclusion-graph bans licenses sources; \
	else echo "skipped, licences and sources: get cargo-deny with 'cargo install --locked cargo-deny'"; fi

# The oldest Rust that Cargo.toml allows.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

msrv: ## Compile everything with the oldest Rust that is supported
	@$(call need,rustup,https://rustup.rs)
	rustup toolchain install $(MSRV) --profile minimal
	cargo +$(MSRV) check --locked --workspace --all-targets

deny: rust ## Check what causeway is built from against the advisories too, which are fetched
	@$(call need,cargo-deny,cargo install --locked cargo-deny)
	$(CARGO) deny --workspace check --hide-inclusion-graph

# Crates that open sockets or run tasks. The engine and the wire must not depend on any of them.
IO := axum|hyper|hyper-.*|kube-client|kube-runtime|mio|openssl.*|reqwest|rustls|rustls-.*|socket2|tokio|tokio-.*|tower|tower-.*

# Lists the dependencies of a crate that do IO: $(call io_of,crate)
io_of = $(CARGO) tree --quiet --package $(1) --edges normal,no-proc-macro --prefix none --format '{p}' | cut -d' ' -f1 | sort -u | { grep -xE '$(IO)' || true; } | paste -sd' '

# The guard first proves that it fails on a crate that does IO.
pure: rust ## Check that the engine and the wire cannot do IO
	@bad=$$($(call io_of,causeway-controller)); \
	[ -n "$$bad" ] || { echo "make pure finds no IO below causeway-controller, so it would find none anywhere: repair IO in the Makefile" >&2; exit 1; }
	@for crate in causeway-engine causeway-wire; do \
		io=$$($(call io_of,$$crate)); \
		[ -z "$$io" ] || { echo "$$crate must not depend on crates that do IO: $$io (see cargo tree -p $$crate -i CRATE)" >&2; exit 1; }; \
	done

# What is built of the page is committed, so that Cargo needs no npm: it must be what the sources give.
page:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory ui-packages && $(UI) run check; \
	else echo "skipped, the page of kubectl mcs ui: npm is missing; on Debian: apt-get install nodejs npm"; fi

ui: ui-packages ## Build the page of kubectl mcs ui again from cli/ui/src
	@$(UI) run build

ui-packages:
	@$(call need,npm,on Debian: apt-get install nodejs npm)
	@[ cli/ui/node_modules/.package-lock.json -nt cli/ui/package-lock.json ] || $(UI) ci --ignore-scripts --no-audit --no-fund

manifests: rust go ## Write the manifests again from the Rust types and the chart
	$(CARGO) build --workspace --bin xtask
	$(TARGET)/debug/xtask generate-manifests
	$(TARGET)/debug/xtask render-manifests

krew: ## Fill in krew's manifest for the archives of a release, DIST/kubectl-mcs-vVERSION-OS-ARCH.tar.gz
	xtask/release/krew $(DIST) > $(DIST)/mcs.yaml

testbed: rust go ## Build the testbed, and say what this machine lacks for real packets
	$(CARGO) build --workspace --bin prepare-testbed
	$(TARGET)/debug/prepare-testbed

rust:
	@$(call need,$(CARGO),install Rust 1.92 or later from https://rustup.rs)
	@$(call need,cc,install a C compiler; on Debian: apt-get install build-essential)

go:
	@$(call need,go,install Go 1.26 or later from https://go.dev/dl)
