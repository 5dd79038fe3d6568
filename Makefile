# What a person types. CI runs `make test`. Every tool is pinned.

export GOTOOLCHAIN = auto
export CGO_ENABLED = 0

GO            = go
GOLANGCI      = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BIN           = bin
FUZZTIME     ?= 10s
BUILD         = $(GO) build -trimpath

# Recorded client traffic that conformance tests replay, when it lies beside the repository; a path of your own works too.
ifneq ($(wildcard ../shared/conformance),)
export SANDBOXD_CONFORMANCE ?= $(abspath ../shared/conformance)
endif

# Where vm.sh lies, which boots a virtual machine. Without it the tests that need one are left out, by name.
ifneq ($(wildcard ../shared/testbed/vm.sh),)
export SANDBOXD_TESTBED ?= $(abspath ../shared/testbed)
endif

.DEFAULT_GOAL := help
# What make test does, in this order.
STAGES = test-tools
STAGES += lint
STAGES += test-packages
STAGES += test-oracles
STAGES += test-catalogue
STAGES += test-python
STAGES += test-imports
STAGES += test-user
STAGES += test-datarobot
STAGES += test-agentsandbox
STAGES += test-opensandbox
STAGES += test-chart
STAGES += test-compose
STAGES += test-release
STAGES += test-together
.PHONY: help build build-probes run test test-kube test-code $(STAGES) bench fuzz fmt release clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/sandboxd and bin/sandboxd-runner
	$(BUILD) -o $(BIN)/sandboxd ./cmd/sandboxd
	$(BUILD) -ldflags '-s -w' -o $(BIN)/sandboxd-runner ./cmd/sandboxd-runner

# What demonstration and catalogue run besides: the probe program, and a build that leaves out the step it is told to.
build-probes: build
	$(BUILD) -ldflags '-s -w' -o $(BIN)/probe ./test/probe
	$(BUILD) -tags sabotage -o $(BIN)/sabotage/sandboxd ./cmd/sandboxd
	$(BUILD) -tags sabotage -ldflags '-s -w' -o $(BIN)/sabotage/sandboxd-runner ./cmd/sandboxd-runner

run: build-probes ## build, then the demonstration (as root: every mechanism)
	test/demo/run.sh $(BIN)

test: $(STAGES) ## install what tests need, run everything

test-tools:
	@test/tools.sh

# The race detector needs cgo. Packages are built together and tested one at a time.
test-packages:
	CGO_ENABLED=1 $(GO) build -race ./...
	@test/packages.sh $$($(GO) list ./... | grep -v -e /test/mutation -e /test/catalogue)

test-oracles:
	cd test/oracle && CGO_ENABLED=1 SANDBOXD_REQUIRE_ORACLES=1 $(GO) test -timeout 15m ./...

test-mutations:
	$(GO) test -tags sabotage -timeout 40m ./test/mutation

# The programs as they are installed, against the catalogue of attacks. The last line counts what held, what was refused and what was skipped.
test-catalogue: build-probes
	$(GO) test -c -o $(BIN)/catalogue.test ./test/catalogue
	cd test/catalogue && SANDBOXD_BIN=$(abspath $(BIN)) $(abspath $(BIN))/catalogue.test -test.timeout 10m

# The Python package, installed as a user would, against the daemon.
test-python: build
	@test/python.sh $(BIN)

# numpy, pandas, polars, pyarrow, matplotlib and requests under the default profile.
test-imports: build
	@test/imports.sh $(BIN)

# The same tests once more without privilege. As an ordinary user `make test` has only this kind.
test-user: build-probes
	@test/user.sh $(BIN)

# DataRobot's own client, unmodified, against the daemon as it is installed; with the conformance material there, it fails rather than leave something out.
test-datarobot: build
	@test/datarobot.sh $(BIN) "$(SANDBOXD_CONFORMANCE)"

# agent-sandbox's own client and router, unmodified, in the same way.
test-agentsandbox: build
	@test/agentsandbox.sh $(BIN) "$(SANDBOXD_TESTBED)"

# OpenSandbox's code-interpreter SDK, in the same way.
test-code: build
	@GO="$(GO)" test/opensandbox.sh $(BIN) "" code

# The Helm chart, and what a real API server would say of what it renders.
test-chart: build
	@test/chart.sh $(BIN) "$(SANDBOXD_TESTBED)"

# deploy/compose.yaml, read by Compose's own loader, and run as bundles of runc.
test-compose: build-probes
	cd test/compose && SANDBOXD_REQUIRE_RUNC=1 SANDBOXD_BIN=$(abspath $(BIN)) $(GO) test -timeout 5m ./...

# Both programs for both architectures, twice.
test-release:
	@test/release.sh

test-kube: build-probes ## the chart against a real API server and in a real pod, built when not in the cache: half an hour then. Not part of make test
	@test/kube.sh $(BIN) "$(SANDBOXD_TESTBED)"
	$(GO) test -c -o $(BIN)/catalogue.test ./test/catalogue
	@test/pod.sh $(BIN) "$(SANDBOXD_TESTBED)"

# OpenSandbox's SDKs, command line and MCP server, and Airflow's provider and a Dag, unmodified, in the same way: four minutes, and more where nothing is in the cache.
test-opensandbox: build
	@GO="$(GO)" test/opensandbox.sh $(BIN) "$(SANDBOXD_CONFORMANCE)"

# The two longest, neither of which minds the other: one compiles, the other is a machine's emulation, on one core.
test-together:
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target test-mutations test-vm

# And in a machine with every cgroup controller and an older kernel.
test-vm:
	@test/vm/run.sh "$(SANDBOXD_TESTBED)"

lint: ## gofmt, go vet (both architectures, and the builds with test hooks), golangci-lint
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags sabotage ./...
	$(GO) vet -tags fault ./...
	GOARCH=arm64 $(GO) vet ./cmd/sandboxd-runner ./runner/... ./enforcer/... ./test/probe
	$(GO) run $(GOLANGCI) run --allow-parallel-runners ./...

bench: ## docs/benchmarks.md: ratios to a bare spawn, in one interleaved run
	@mkdir -p docs
	$(GO) run ./test/bench >docs/benchmarks.new
	mv docs/benchmarks.new docs/benchmarks.md

fuzz: ## each fuzz target for FUZZTIME (10s)
	@test/fuzz.sh $(FUZZTIME)

fmt: ## gofmt
	gofmt -w $$(git ls-files '*.go')

release: ## dist/: both programs for both architectures, bills of materials, digests
	deploy/release.sh

clean: ## remove what was built
	rm -rf $(BIN)
