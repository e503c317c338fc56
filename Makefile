# Each target works on a bare clone with nothing but Go and make.
# ARGS goes to go test and to the demo: make test ARGS='-v -run Contract'

ARGS     ?=
PKG      ?= ./...
BENCH    ?= .
TIER     ?= quick
FUZZTIME ?= 30s
TOOL     := go tool -modfile="$(CURDIR)/tools/go.mod"
NESTED   := $(patsubst ./%/go.mod,%,$(sort $(shell find . -mindepth 2 -name go.mod -not -path './tools/*' -not -path '*/.*')))

# A module stands on its own, whatever go.work there is around it.
export GOWORK := off

# $(call each,modules,command) runs the command in the folder of each module.
each = @set -e; for m in $(1); do echo "== $$m"; (cd "$$m" && $(2)); done

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install redis-server and a C compiler where they are missing
	@.ci/setup

test: setup ## Run all tests of the core module, under the race detector
	go test -race -shuffle=on -parallel=8 $(ARGS) $(PKG)

test-long: setup ## The same, twenty times over
	go test -race -shuffle=on -parallel=8 -count=20 -timeout=1h $(ARGS) $(PKG)

check: gofmt vet lint vuln examples test-32 nested ## All that CI checks beside the tests

fmt: ## Format all modules
	$(TOOL) golangci-lint fmt

gofmt:
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "make fmt is needed for:"; echo "$$out"; exit 1; }

vet: ## Run go vet, for 64 and for 32 bits
	go vet ./...
	GOARCH=386 go vet ./...

lint: ## Run the linters on all modules
	$(call each,. $(NESTED),$(TOOL) golangci-lint run ./...)

vuln: ## Look for known vulnerabilities
	@echo "govulncheck ./..."; out=$$($(TOOL) govulncheck ./... 2>&1) && echo "$$out" && exit; code=$$?; echo "$$out"; \
	case $$out in *"fetching vulnerabilities"*) echo "WARNING: VULNERABILITIES NOT CHECKED, the database is out of reach" ;; *) exit $$code ;; esac

examples: setup ## Run the examples alone, as they are documented
	go test -run='^Example' $(ARGS) ./...

test-32: ## Run the tests of the engines as a 32-bit program, where that can run
	@case "$$(uname -sm)" in "Linux x86_64") set -x; GOARCH=386 go test $(ARGS) ./schedule/... ./wheel ./heapqueue ;; *) echo "test-32 needs Linux on x86-64" ;; esac

nested: setup ## Build, vet and test the modules in subfolders
	$(call each,$(NESTED),go build -buildvcs=false -o /dev/null ./... && go vet ./... && go test $(ARGS) ./...)

verify: setup ## Verify the protocol and print what was done, TIER=long, nightly or release for more of it
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; cd verify && \
	if VERIFY_TIER=$(TIER) VERIFY_REPORT="$$dir" go test -count=1 -timeout=$(if $(filter quick,$(TIER)),15m,48h) $(ARGS) ./...; then code=0; else code=1; fi; \
	cat "$$dir"/*.txt; exit $$code

fuzz: setup ## Run each fuzz target of all modules for FUZZTIME, 30s unless you say
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z]*' . | sed 's|/[^/]*:func | |' | sort | while read -r dir name; do \
		echo "== $$dir $$name"; \
		(cd "$$dir" && go test -run='^$$' -fuzz="^$$name\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x $(ARGS) . </dev/null) || exit 1; done

mutate: setup ## Change the code in small ways and see which no test notices, PKG=./renewal or ARGS=-lua
	cd verify && go run ./mutate $(ARGS) $(if $(findstring -lua,$(ARGS)),,$(or $(filter-out ./...,$(PKG)),./heapqueue ./wheel ./renewal ./lock/memstore ./lock))

bench: ## Run the benchmarks, BENCH=regexp for some of them
	cd benchmarks && go test -run='^$$' -bench='$(BENCH)' -benchmem $(ARGS) ./...

bench-timers: ## Hold the timer engines against their peers, ARGS=-quick for a short run
	cd benchmarks && go run ./timers $(ARGS)

bench-leases: setup ## Hold 100,000 locks beside other clients, ARGS=-quick for a short run
	cd benchmarks && go run ./leases $(ARGS)

bench-locks: setup ## Lock, hand over and lock many at once beside other clients, ARGS=-quick for a short run
	cd benchmarks && go run ./locks $(ARGS)

demo: ## Run the demo, ARGS='-engine heap' for the other engine
	go run ./cmd/renewdemo $(ARGS)

.PHONY: help setup test test-long check fmt gofmt vet lint vuln examples test-32 nested verify fuzz mutate bench bench-timers bench-leases bench-locks demo
