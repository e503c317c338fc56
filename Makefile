# Each target works on a bare clone with nothing but Go and make.
# ARGS goes to go test and to the demo: make test ARGS='-v -run Contract'

ARGS     ?=
PKG      ?= ./...
TIER     ?= quick
FUZZTIME ?= 30s
TOOL     := go tool -modfile="$(CURDIR)/tools/go.mod"
NESTED   := $(patsubst ./%/go.mod,%,$(sort $(shell find . -mindepth 2 -name go.mod -not -path './tools/go.mod' -not -path '*/.*')))

# Tests and the linters share one build, so that each package is compiled once: under the race
# detector, without two libraries. SQLite is C that was translated to Go: the race detector makes it
# ten times slower, and would find nothing of this project there. The client of ZooKeeper, up to
# v1.0.4, reads its last transaction without a lock when it restores watches.
nodwarf := -dwarf=false
RACE := -race -trimpath '-gcflags=modernc.org/...=-race=false -d=checkptr=0 $(nodwarf)' '-gcflags=github.com/go-zookeeper/...=-race=false $(nodwarf)'

# with_race gives these flags also to the programs that tests build.
with_race := GOFLAGS="$$GOFLAGS $(RACE)"

# Only a debugger needs DWARF, and a fifth of the time of the compiler goes into it. The variable replaces
# what go env -w has set, so that is kept.
export GOFLAGS := $(shell go env GOFLAGS 2>/dev/null) -gcflags=all=$(nodwarf)

# All goroutines of a test have ended before it ends, so the race detector need not wait a second for them.
export GORACE ?= atexit_sleep_ms=0

# The modules whose tests need database servers, and the other nested modules that nested tests, each list
# with those first that take longest. Those of UNRACED are built without the race detector: verify searches
# through schedules, and is twenty times faster, and benchmarks and compare run other clients with their
# own bounds.
STORES := $(patsubst %,lock/%,sqlstore/check zkstore/check etcdstore/check natsstore/check zkstore etcdstore natsstore sqlstore sqlstore/pglisten)
OTHERS := verify $(filter-out verify verify/interop cmd/renewdemo/browser tools/release $(STORES),$(NESTED))
UNRACED := verify benchmarks verify/compare
built   = $(if $(filter $(UNRACED),$*),,$(RACE))

# The adapter requires an old client-go, and its check the controller-runtime of that time, which does not
# compile with the client-go that others bring.
KUBERNETES := contrib/adapter/k8s contrib/adapter/k8s/check

# Modules are built without a go.work file.
export GOWORK := off

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup-stores: ## Install the database servers that test-stores needs
	@.ci/setup-stores

setup-interop: ## Install the runtimes that interop needs: a JDK, Maven, Node.js and Python
	@.ci/setup-interop

setup: ## Install redis-server and a C compiler where they are missing
	@.ci/setup

# Three packages at a time, with many tests that sleep. locktest limits those that work. The linters vet.
test: setup ## Run all tests of the core module, under the race detector
	go test $(RACE) -vet=off -shuffle=on -p=3 -parallel=32 $(ARGS) $(PKG)

test-newest: setup ## Test the newest releases of go-redis and of controller-runtime, of which go.mod requires the oldest
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; mod="$$dir/go.mod"; set -ex; \
	cp go.mod go.sum "$$dir"; go get -modfile="$$mod" github.com/redis/go-redis/v9@latest; \
	go test $(RACE) -modfile="$$mod" -parallel=32 $(ARGS) ./lock/internal/redisnode ./lock/internal/redisconn ./lock/redisstore; \
	cd contrib/adapter/k8s/check; cp go.mod go.sum "$$dir"; go get -modfile="$$mod" sigs.k8s.io/controller-runtime@latest; \
	go test $(RACE) -modfile="$$mod" $(ARGS) ./...

test-long: setup ## Run them twenty times, with more random operations, and those of the stores on all databases
	SCHEDULETEST_OPERATIONS=500000 go test $(RACE) -shuffle=on -p=2 -parallel=32 -count=20 -timeout=2h $(ARGS) $(PKG)
	$(MAKE) --no-print-directory stores

check: gofmt vet lint vuln examples test-32 nested ## Run everything that CI checks besides the tests

fmt: ## Format all modules
	$(TOOL) golangci-lint fmt

gofmt:
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "make fmt is needed for:"; echo "$$out"; exit 1; }

# workspace TOOL begins a command: all modules are in one workspace, which has one version of each
# dependency, and so loads each once. Only those of KUBERNETES stay outside. $$tool is the path of the tool.
TOGETHER := $(filter-out $(KUBERNETES),$(NESTED))
workspace = @temp=$$(mktemp -d); trap 'rm -rf "$$temp"' EXIT; set -e; tool=$$($(TOOL) -n $1); \
	(cd "$$temp" && GOWORK= go work init "$(CURDIR)" $(patsubst %,"$(CURDIR)/%",$(TOGETHER))); export GOWORK="$$temp/go.work"

# An analyzer that loads all dependencies as source stands in for go vet, which would compile each for
# the platform. It reports what does not compile, for Windows with 32 bits. The benchmarks and
# compare use what only Unix has.
vet: ## Check that all modules compile for macOS and Windows; lint has the checks of go vet
	$(call workspace,lostcancel); export CGO_ENABLED=0; \
	echo "== all modules, macOS"; GOOS=darwin "$$tool" $(patsubst %,./%/...,. $(TOGETHER)); \
	echo "== all modules, Windows"; GOOS=windows GOARCH=386 "$$tool" $(patsubst %,./%/...,. $(filter-out benchmarks benchmarks/% verify/compare,$(TOGETHER))); \
	export GOWORK=off; for module in $(KUBERNETES); do cd "$(CURDIR)/$$module"; \
	echo "== $$module"; GOOS=darwin "$$tool" ./...; GOOS=windows GOARCH=386 "$$tool" ./...; done

# Each package is built for the linters as for the tests.
lint: ## Run the linters on all modules, with all checks of go vet
	$(call workspace,golangci-lint); run="$$tool run --allow-serial-runners"; code=0; \
	for module in . $(KUBERNETES); do (cd $$module && $(with_race) GOWORK=off $$run) || code=1; done; \
	$(with_race) $$run $(patsubst %,./%/...,$(filter-out verify/% $(UNRACED),$(TOGETHER))) || code=1; \
	$$run $(UNRACED:%=./%/...) || code=1; exit $$code

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

# Servers that are missing and cannot be installed are named, but only CI must have them all. Three
# databases at once are enough for two cores, so sqlstore is tested alone.
test-stores: setup ## Test the stores on databases, under the race detector
	@.ci/setup-stores || [ -z "$$CI" ]
	@code=0; $(MAKE) --no-print-directory store/lock/sqlstore/check || code=1; \
	$(subst @,,$(two)) $(patsubst %,store/%,$(filter-out lock/sqlstore/check,$(STORES))) || code=1; \
	.ci/setup-stores -missing; exit $$code

store/%:
	@echo "== $*"; cd $* && go test $(RACE) -vet=off -p=1 -parallel=16 $(ARGS) ./...

build-tests: setup ## Compile the tests of the nested modules, so that they start sooner
	@$(MAKE) --no-print-directory --keep-going $(patsubst %,built/%,$(STORES) $(OTHERS) verify/interop tools/release)

# The tests of etcd run the server as a program, without the race detector.
built/lock/etcdstore/check: server = && go tool -n etcd >/dev/null

# The go command keeps what it compiles, but links tests again, so they are not linked here.
built/%:
	@echo "== $*"; cd $* && go list -test -export -deps $(built) ./... >/dev/null $(server)

nested: setup ## Test the nested modules, except interop and those of test-stores
	$(two) $(OTHERS:%=nested/%)

nested/%:
	@echo "== $*"; cd $* && GOFLAGS="$$GOFLAGS $(built)" go test -vet=off $(ARGS) ./...

# One package at a time, because they measure latencies. The report comes last, even if tests fail.
interop: setup ## Contend for locks with the libraries of other languages; says which runtimes are missing (make setup-interop)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; cd verify/interop && \
	if INTEROP_REPORT="$$dir" $(with_race) go test -vet=off -count=1 -p=1 ./... $(ARGS); then code=0; else code=1; fi; \
	cat "$$dir"/*.txt; exit $$code

# -v shows what each public module brings. The go command does not know that the test reads HEAD.
consumer: setup ## Release HEAD in a clone, and get each public module from there as users do
	cd tools/release && $(with_race) go test -vet=off -count=1 $(if $(findstring -json,$(ARGS)),,-v) $(ARGS) ./...

release: ## Try the release VERSION=v1.2.3 in a clone; DO=1 makes its commit and its tags here
	cd tools/release && go run . -version '$(VERSION)' $(if $(DO),-do)

verify: setup ## Verify the protocols and the code, TIER=long, nightly or release for more
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; cd verify && \
	if VERIFY_TIER=$(TIER) VERIFY_REPORT="$$dir" go test -count=1 -timeout=$(if $(filter quick,$(TIER)),15m,48h) $(ARGS) ./...; then code=0; else code=1; fi; \
	cat "$$dir"/*.txt; exit $$code

servers: setup ## Run the tests on all servers of packages, NAMES='redis-5.0 valkey-9.1' for some
	@ARGS='$(ARGS)' .ci/servers test $(NAMES)

stores: ## Run the tests of the stores on all databases of packages, NAMES='mysql-9.7 etcd-3.5' for some
	@ARGS='$(ARGS)' .ci/servers stores $(NAMES)

fuzz: setup ## Run each fuzz target of all modules for FUZZTIME, 30s by default
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z]*' . | sed 's|/[^/]*:func | |' | sort | while read -r dir name; do \
		echo "== $$dir $$name"; \
		(cd "$$dir" && go test -run='^$$' -fuzz="^$$name\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x $(ARGS) . </dev/null) || exit 1; done

bench-timers: ## Compare the timer engines with their peers, ARGS=-quick for a short run
	cd benchmarks && go run ./timers $(ARGS)

bench-leases: setup ## Hold 100,000 locks beside other clients, ARGS=-quick or ARGS='-leases 1000,1000000'
	cd benchmarks && go run ./leases $(ARGS)

bench-locks: setup ## Lock, hand over and lock many at once beside other clients, ARGS=-quick for a short run
	cd benchmarks && go run ./locks $(ARGS)

compare: setup ## Play faults against all lock clients and write docs/COMPARISON.md (half an hour or more); ARGS=-quick for two
	@.ci/setup-interop || true # the program names what it cannot play
	@.ci/setup-stores || true
	cd verify/compare && go run . $(ARGS)

compare-page: ## Write the tables of docs/COMPARISON.md from verify/compare/results
	cd verify/compare && go run . -print >/dev/null

route: setup ## Count the functions, files and hops that a lock and a renewal pass through; ARGS=-functions lists them
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; cd benchmarks && \
	GOCOVERDIR="$$dir" go run -cover -covermode=atomic -coverpkg=github.com/leasewheel/leasewheel/... ./route $(ARGS)

bench-stores: setup ## Compare the stores: a lock, a hand-over, renewals; ARGS=-quick for a short run
	@.ci/setup-stores || true # the program names what it leaves out
	mysqld=$$(.ci/servers any mysql-9.7)/mysqld; [ ! -x "$$mysqld" ] || export MYSQLD=$$mysqld; cd benchmarks/stores && go run . $(ARGS)

bench-page: ## Write the tables and charts of BENCHMARKS and STORES from benchmarks/results
	cd benchmarks && for name in timers leases locks; do go run ./$$name -print -docs ../docs >/dev/null || exit 1; done
	cd benchmarks/stores && go run . -print -docs ../../docs >/dev/null

# Chromium comes from the packages of the system, and axe-core, which checks contrasts, from npm.
BROWSER_TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/leasewheel/browser

setup-browser: ## Install Chromium and what else page-test needs
	@.ci/setup-browser "$(BROWSER_TOOLS)"

page-test: setup setup-browser playground ## Use the page of the demo, the playground and, after make site, the site in Chromium
	cd cmd/renewdemo/browser && PAGE_AXE="$(BROWSER_TOOLS)/axe.min.js" PAGE_PLAYGROUND="$(PLAYGROUND)" PAGE_SITE="$(wildcard $(CURDIR)/build/site)" $(with_race) go test -vet=off -count=1 $(ARGS) ./...

page-pictures: ## Run page-test and write the pictures of the README
	PAGE_SCREENSHOTS="$(CURDIR)/docs/img" $(MAKE) --no-print-directory page-test

PLAYGROUND ?= $(CURDIR)/build/playground

# The program is the test binary of verify/legacy, so that the playground runs what the tests run.
playground: ## Build the playground, a folder for any file server, in build/playground
	@mkdir -p "$(PLAYGROUND)" && cp verify/legacy/page/* cmd/renewdemo/internal/demo/page/page.css cmd/renewdemo/internal/demo/page/icon.svg \
		"$$(go env GOROOT)/lib/wasm/wasm_exec.js" "$(PLAYGROUND)"
	cd verify && GOOS=js GOARCH=wasm go test -c -trimpath -ldflags='-s -w' -o "$(PLAYGROUND)/play.wasm" ./legacy
	@gzip -fn "$(PLAYGROUND)/play.wasm" && ls -l "$(PLAYGROUND)/play.wasm.gz"

SITE_TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/leasewheel/site

site: ## Build docs, packages and the playground as a site with a search, in build/site; fails on a broken link
	@.ci/site "$(CURDIR)/build/site" "$(SITE_TOOLS)"

demo: ## Run the demo, ARGS='-engine heap' for the other engine
	go run ./cmd/renewdemo $(ARGS)

.PHONY: help setup stores setup-stores setup-interop test test-newest test-stores build-tests test-long check fmt gofmt vet lint vuln examples test-32 nested interop consumer release verify servers fuzz bench-timers bench-leases bench-locks route bench-stores bench-page compare compare-page setup-browser page-test page-pictures playground site demo
