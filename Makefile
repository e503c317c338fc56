# Each target works on a bare clone with nothing but Go and make.
# ARGS goes to go test and to the demo: make test ARGS='-v -run Contract'

ARGS     ?=
PKG      ?= ./...
BENCH    ?= .
TIER     ?= quick
FUZZTIME ?= 30s
NEWEST_GO ?= go1.27.0
NEWEST_ROWS := hot-0,hot-1m,par-1m,replace,reset,fire,rearm,bytes,gc
TOOL     := go tool -modfile="$(CURDIR)/tools/go.mod"
NESTED   := $(patsubst ./%/go.mod,%,$(sort $(shell find . -mindepth 2 -name go.mod -not -path './tools/*' -not -path '*/.*')))

# The modules whose tests need database servers. SQLite is C that was translated to Go: the race
# detector makes it ten times slower, and would find nothing of this project there. The client of
# ZooKeeper, up to v1.0.4, reads its last transaction without a lock when it restores watches.
STORES     := lock/sqlstore lock/etcdstore lock/etcdstore/check lock/natsstore lock/zkstore
STOREFLAGS := -race -gcflags='modernc.org/...=-race=false -d=checkptr=0' -gcflags='github.com/go-zookeeper/...=-race=false' -p=1 -parallel=16

# The other nested modules that nested tests. Those of compat contend in one process, and rely on the
# race detector to report two holders. They mostly wait, so it hardly slows them.
OTHERS := $(filter-out interop $(STORES),$(NESTED))
RACE    = $(if $(filter compat/%,$*),-race)

# Modules are built without a go.work file.
export GOWORK := off

# $(call each,modules,command) runs the command in the folder of each module.
each = @set -e; for m in $(1); do echo "== $$m"; (cd "$$m" && $(2)); done

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup-stores: ## Install the database servers that test-stores needs
	@.ci/setup-stores

setup-interop: ## Install the runtimes that interop needs: a JDK, Maven, Node.js and Python
	@.ci/setup-interop

setup: ## Install redis-server and a C compiler where they are missing
	@.ci/setup

# Two packages with eight tests each at a time: more would only compete for two cores.
test: setup ## Run all tests of the core module, under the race detector
	go test -race -shuffle=on -p=2 -parallel=8 $(ARGS) $(PKG)

test-long: setup ## Run them twenty times, with more random operations
	SCHEDULETEST_OPERATIONS=500000 go test -race -shuffle=on -p=2 -parallel=8 -count=20 -timeout=2h $(ARGS) $(PKG)

check: gofmt vet lint vuln examples test-32 nested ## Run everything that CI checks besides the tests

fmt: ## Format all modules
	$(TOOL) golangci-lint fmt

gofmt:
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "make fmt is needed for:"; echo "$$out"; exit 1; }

vet: ## Run go vet for 64 and 32 bits, macOS and Windows
	go vet ./...
	GOARCH=386 go vet ./...
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...

lint: ## Run the linters on all modules
	$(call each,. $(NESTED),$(TOOL) golangci-lint run --allow-serial-runners ./...)

vuln: ## Check for known vulnerabilities
	@echo "govulncheck ./..."; out=$$($(TOOL) govulncheck ./... 2>&1) && echo "$$out" && exit; code=$$?; echo "$$out"; \
	case $$out in *"fetching vulnerabilities"*) echo "WARNING: VULNERABILITIES NOT CHECKED, the database is out of reach" ;; *) exit $$code ;; esac

examples: setup ## Run the examples in the documentation and the programs in examples
	go test -run='^Example' $(ARGS) ./...
	go test $(ARGS) ./examples/...

test-32: ## Run the tests of the engines as a 32-bit program, on Linux
	@case "$$(uname -sm)" in "Linux x86_64") set -x; GOARCH=386 go test $(ARGS) ./schedule/... ./wheel ./heapqueue ;; *) echo "test-32 needs Linux on x86-64" ;; esac

# two runs a target for each of its modules, two at a time, because most tests wait. The output of a
# module comes at its end.
two = @$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target

# Servers that are missing and cannot be installed are named, but only CI must have them all.
test-stores: setup ## Vet and test the stores on databases, under the race detector
	@.ci/setup-stores || [ -z "$$CI" ]
	$(two) $(STORES:%=store/%)
	@.ci/setup-stores -missing

store/%:
	@echo "== $*"; cd $* && go vet ./... && go test $(STOREFLAGS) $(ARGS) ./...

build-tests: setup ## Build the tests of the nested modules, so that they start sooner
	$(call each,$(STORES),go test -exec true $(STOREFLAGS) ./...)
	@$(MAKE) --no-print-directory --keep-going $(OTHERS:%=built/%)
	$(call each,interop,go test -exec true -race ./...)

built/%:
	@cd $* && go test -exec true $(RACE) ./...

nested: setup ## Vet and test the nested modules, except interop and those of test-stores
	$(two) $(OTHERS:%=nested/%)

nested/%:
	@echo "== $*"; cd $* && go vet ./... && go test $(RACE) $(ARGS) ./...

# One package at a time, because they measure latencies. The report comes last, even if tests fail.
interop: setup ## Contend for locks with the libraries of other languages; says which runtimes are missing (make setup-interop)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; cd interop && go vet ./... && \
	if INTEROP_REPORT="$$dir" go test -race -count=1 -p=1 ./... $(ARGS); then code=0; else code=1; fi; \
	cat "$$dir"/*.txt; exit $$code

verify: setup ## Verify the protocols and the code, TIER=long, nightly or release for more
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; cd verify && \
	if VERIFY_TIER=$(TIER) VERIFY_REPORT="$$dir" go test -count=1 -timeout=$(if $(filter quick,$(TIER)),15m,48h) $(ARGS) ./...; then code=0; else code=1; fi; \
	cat "$$dir"/*.txt; exit $$code

servers: setup ## Run the tests on all servers of packages, NAMES='redis-5.0 valkey-9.1' for some
	@ARGS='$(ARGS)' .ci/servers test $(NAMES)

fuzz: setup ## Run each fuzz target of all modules for FUZZTIME, 30s by default
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z]*' . | sed 's|/[^/]*:func | |' | sort | while read -r dir name; do \
		echo "== $$dir $$name"; \
		(cd "$$dir" && go test -run='^$$' -fuzz="^$$name\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x $(ARGS) . </dev/null) || exit 1; done

bench: ## Run the benchmarks, BENCH=regexp for some of them
	cd benchmarks && go test -run='^$$' -bench='$(BENCH)' -benchmem $(ARGS) ./...

bench-timers: ## Compare the timer engines with their peers, ARGS=-quick for a short run
	cd benchmarks && go run ./timers $(ARGS)

bench-newest: ## Run the engines' rows with NEWEST_GO, to be compared with the pinned release
	cd benchmarks && GOTOOLCHAIN=$(NEWEST_GO) go run ./timers -peers wheel,heap,std -rows $(NEWEST_ROWS) -json results/timers-newest.json $(ARGS)

bench-leases: setup ## Hold 100,000 locks beside other clients, ARGS=-quick or ARGS='-leases 1000,1000000'
	cd benchmarks && go run ./leases $(ARGS)

bench-locks: setup ## Lock, hand over and lock many at once beside other clients, ARGS=-quick for a short run
	cd benchmarks && go run ./locks $(ARGS)

bench-stores: setup ## Compare the stores: a lock, a hand-over, renewals; ARGS=-quick for a short run
	@.ci/setup-stores || true # the program names what it leaves out
	cd benchmarks/stores && go run . $(ARGS)

bench-page: ## Write the tables and charts of docs/BENCHMARKS.md from benchmarks/results
	cd benchmarks && if [ -f results/timers.json ]; then go run ./timers -render results/timers.json -docs ../docs \
		$(if $(wildcard benchmarks/results/timers-newest.json),-compare results/timers-newest.json) >/dev/null; fi
	cd benchmarks && if [ -f results/leases.json ]; then go run ./leases -print results/leases.json -docs ../docs >/dev/null; fi
	cd benchmarks && if [ -f results/lease-scale.json ]; then go run ./leases -scale -print results/lease-scale.json -docs ../docs >/dev/null; fi
	cd benchmarks/stores && if [ -f ../results/stores.json ]; then go run . -print ../results/stores.json -docs ../../docs >/dev/null; fi
	cd benchmarks && if [ -f results/locks.json ]; then go run ./locks -print results/locks.json -docs ../docs >/dev/null; fi

demo: ## Run the demo, ARGS='-engine heap' for the other engine
	go run ./cmd/renewdemo $(ARGS)

.PHONY: help setup setup-stores setup-interop test test-stores build-tests test-long check fmt gofmt vet lint vuln examples test-32 nested interop verify servers fuzz bench bench-timers bench-newest bench-leases bench-locks bench-stores bench-page demo
