# Everything a developer runs. `make help` lists it.

GO                ?= go
FUZZTIME          ?= 10s
GOLANGCI_VERSION  := v2.15.0
GOVULN_VERSION    := v1.9.0
PACKAGES          ?= ./...
TESTFLAGS         ?=
# Packages whose tests run in virtual time. The tag makes the Kafka client use
# locks that testing/synctest understands; without it a rebalance test hangs.
VIRTUAL           := $(shell grep -rlE '"testing/synctest"' --include='*_test.go' . 2>/dev/null | xargs -r -n1 dirname | sort -u)
# Packages with tests that need real parts; verify has modules of its own.
REAL              := $(shell grep -rlE '^//go:build .*integration' --include='*_test.go' --exclude-dir=verify . 2>/dev/null | xargs -r -n1 dirname | sort -u)
GOLANGCI          := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: build
build: ## bin/mskbridge
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/mskbridge ./cmd/mskbridge

.PHONY: test
test: ## vet and every test that needs nothing but Go
	$(GO) vet $(PACKAGES)
	$(GO) test $(TESTFLAGS) $(PACKAGES)
	$(if $(VIRTUAL),$(GO) test $(TESTFLAGS) -tags synctests $(VIRTUAL))

.PHONY: race
race: ## the same tests under the race detector, in both tag sets
	$(GO) test $(TESTFLAGS) -race $(PACKAGES)
	$(if $(VIRTUAL),$(GO) test $(TESTFLAGS) -race -tags synctests $(VIRTUAL))

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (default 10s)
	@GO="$(GO)" FUZZTIME="$(FUZZTIME)" .ci/fuzz

.PHONY: lint
lint: ## golangci-lint, pinned; the first run builds it (about 3 minutes on two cores)
	$(GOLANGCI) run $(PACKAGES)

.PHONY: fmt
fmt: ## format as lint wants it
	$(GOLANGCI) fmt

.PHONY: tidy
tidy: ## go.mod and go.sum are what the code needs, here and in verify
	$(GO) mod tidy -diff
	$(GO) mod verify
	cd verify/duckdb && $(GO) mod tidy -diff
	cd verify/googlesql && $(GO) mod tidy -diff

.PHONY: vuln
vuln: ## known vulnerabilities in what is linked; says so when the database does not answer
	@GO="$(GO)" VERSION="$(GOVULN_VERSION)" .ci/vuln

.PHONY: bench
bench: ## what the parts cost, then the whole path beside the textbook loop (3 minutes; go run ./bench -h says how to run longer)
	$(GO) test -run '^$$' -bench . -benchmem -benchtime 200ms $$(grep -rlE '^func Benchmark' --include='*_test.go' . | xargs -r -n1 dirname | sort -u)
	$(GO) run ./bench

.PHONY: integration
integration: ## tests against a real Kafka, the Pub/Sub emulator and a server of BigQuery's API; MSKBRIDGE_REQUIRE_PARTS=1 fails without them
	$(GO) vet -tags integration $(REAL)
	$(GO) test -tags integration -count 1 -p 1 -timeout 25m -v $(REAL)

.PHONY: sql
sql: ## the generated BigQuery SQL, executed and analysed by modules of their own; their first build takes minutes and 7 GB of memory; SEEDS=n executes n histories
	$(GO) test $(TESTFLAGS) ./internal/warehouse
	cd verify/duckdb && $(GO) vet . && $(GO) test $(TESTFLAGS) -count 1 -timeout 20m .
	cd verify/googlesql && $(GO) vet . && $(GO) test $(TESTFLAGS) -count 1 -timeout 20m .

.PHONY: end-to-end
end-to-end: ## real Kafka, the bridge killed again and again, the emulator, the generated SQL in DuckDB, and the audit (about 4 minutes); MSKBRIDGE_REQUIRE_PARTS=1 fails without them
	cd verify/duckdb && $(GO) vet -tags integration . && $(GO) test -tags integration -count 1 -timeout 15m -v -run '^TestEndToEnd$$' .

SIM_SEEDS ?= 2000
SIM_FIRST ?= 1
.PHONY: sim
sim: ## SIM_SEEDS random scenarios of both sides in virtual time, from SIM_FIRST on
	SIM_SEEDS=$(SIM_SEEDS) SIM_FIRST=$(SIM_FIRST) $(GO) test $(TESTFLAGS) -tags synctests -count 1 -timeout 24h -run '^TestSimulation$$' ./internal/testbed/sim

.PHONY: mutants
mutants: ## planted bugs, each of which the tests must catch (about 30 minutes on two cores)
	$(GO) test -tags mutants -count 1 -timeout 3h -v -run '^TestMutants$$' ./consumer ./internal/audit ./internal/testbed/sim

.PHONY: image
image: ## the container image, built, inspected and run
	@GO="$(GO)" .ci/image

.PHONY: docs
docs: ## the generated parts of README.md
	$(GO) test ./internal/config -run '^TestReadmeTable$$' -update
