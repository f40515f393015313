# herdgate. `make` or `make help` lists what there is to do.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# What a run may change, as in `make fuzz FUZZTIME=5m`.
PKG       ?= ./...
FUZZTIME  ?= 10s
BENCH     ?= .
BENCHTIME ?= 1s
COUNT     ?= 1
SUITE     ?=
RECORD    ?=
VERSUS    ?= -out ../../docs/benchmarks.md

# The linter is pinned: a new release must not turn a good commit red.
LINT_VERSION := 2.12.2
LINT_MODULE  := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
TOOLS        := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/herdgate/tools
# One cache for each checkout: the linter remembers findings by content, with the path where it first saw
# it, and the rules of .golangci.yml go by path.
LINT_CACHE   := $(TOOLS)/lint-$(shell printf %s '$(CURDIR)' | cksum | cut -d ' ' -f 1)

# What `make newest` upgrades.
NEWEST := github.com/redis/go-redis/v9 github.com/gin-gonic/gin github.com/labstack/echo/v4 \
	github.com/gofiber/fiber/v2 github.com/go-chi/chi/v5

.PHONY: help deps test lint fmt bench versus fuzz chaos conformance golden newest

# Each target's help is the block of ## lines right above it.
## help: this list
help:
	@awk '/^## / { text = text substr($$0, 4) "\n"; next } \
		text != "" { sub(/\n$$/, "", text); n = split(text, lines, "\n"); \
			i = index(lines[1], ": "); \
			printf "  make %-11s %s\n", substr(lines[1], 1, i - 1), substr(lines[1], i + 2); \
			for (k = 2; k <= n; k++) printf "  %16s %s\n", "", lines[k]; text = "" }' $(MAKEFILE_LIST)

## deps: install what the tests need and the system lacks, from apt: redis-server, redis-cli,
## a C compiler for the race detector. Asks for nothing; needs root or sudo
deps:
	@missing=(); \
	command -v redis-server >/dev/null || missing+=(redis-server); \
	command -v redis-cli >/dev/null || missing+=(redis-tools); \
	command -v "$$(go env CC)" >/dev/null || missing+=(gcc libc6-dev); \
	if [ "$${#missing[@]}" = 0 ]; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
		echo "make deps: install $${missing[*]} with your package manager (brew install redis)" >&2; exit 1; fi; \
	sudo=(); if [ "$$(id -u)" != 0 ]; then sudo=(sudo); fi; \
	if [ "$$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then \
		echo "make deps: neither root nor sudo: apt-get install $${missing[*]}" >&2; exit 1; fi; \
	"$${sudo[@]}" apt-get update -qq; \
	"$${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$${missing[@]}"

## test: everything, with the race detector, on real redis-servers that the tests start
## themselves (PKG=./core/... for a part). Below ten minutes on two cores
test: deps
	go test -race -count=1 -p 2 -timeout 9m $(PKG)

## lint: gofmt, go.mod in order, go vet, golangci-lint. The first run on a machine without
## this version of golangci-lint builds it, which takes minutes
lint:
	@bad="$$(gofmt -l .)"; if [ -n "$$bad" ]; then echo "gofmt: $$bad: run make fmt" >&2; exit 1; fi
	go mod tidy -diff
	go vet ./...
	@bin=; for b in $(TOOLS)/golangci-lint "$$(go env GOPATH)/bin/golangci-lint" "$$(command -v golangci-lint || true)"; do \
		if [ -x "$$b" ] && [ "$$("$$b" version --short 2>/dev/null)" = "$(LINT_VERSION)" ]; then bin="$$b"; break; fi; done; \
	if [ -z "$$bin" ]; then \
		echo "building golangci-lint $(LINT_VERSION) into $(TOOLS)"; \
		GOBIN="$(TOOLS)" go install $(LINT_MODULE)@v$(LINT_VERSION); bin="$(TOOLS)/golangci-lint"; fi; \
	echo "golangci-lint run"; GOLANGCI_LINT_CACHE="$(LINT_CACHE)" "$$bin" run ./...

## fmt: format all Go code
fmt:
	gofmt -w .

## bench: benchmarks with allocations (BENCH=Hit for some of them, COUNT=10 for benchstat,
## BENCHTIME=1x to see that they work)
bench: deps
	go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem -count $(COUNT) $(PKG)

## versus: side by side with other caches and with the floor, on one Redis; writes docs/benchmarks.md. About
## ten minutes on a machine that does nothing else (VERSUS=-quick: does it work?)
versus: deps
	cd internal/versus && go vet ./... && go run . $(VERSUS)

## fuzz: each fuzz test for FUZZTIME, 10s by default; a crash stays behind as a seed in testdata
fuzz:
	@for pkg in $$(go list $(PKG)); do \
		for name in $$(go test -list '^Fuzz' "$$pkg" | { grep '^Fuzz' || true; }); do \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$pkg"; done; done

## chaos: break Redis, the network and the processes in many ways under load, over all
## adapters, and write what it cost to docs/faults.md. About a quarter of an hour
chaos: deps
	go test -count=1 -timeout 60m -v -run '^TestFaults$$' ./internal/chaos -args -all -report $(CURDIR)/docs/faults.md \
		| { grep -E '^(    main_test|--- FAIL|    --- FAIL|        [a-z]+_test|ok|FAIL|panic)' || true; }

## conformance: examples/proxy, in every adapter and with both backends, against http-cache-tests from the npm registry, or
## from a checkout (SUITE=dir, after npm install there). Fails below the recorded score; RECORD=1 records it.
## Needs node and npm
conformance: deps
	go run ./internal/cachetests -suite '$(SUITE)' $(if $(RECORD),-record)

## golden: write down anew which names core exports
golden:
	go test ./internal/house -run '^TestCoreAPI$$' -update

## newest: in a copy, upgrade go-redis, gin, echo, fiber and chi to the newest versions that the
## installed Go can build, then build, vet and test. Touches nothing here; go.mod keeps the floors
newest: deps
	@tmp="$$(mktemp -d)"; trap 'rm -rf "$$tmp"' EXIT; \
	tar --exclude=./.git -cf - . | tar -xf - -C "$$tmp"; cd "$$tmp"; export GOTOOLCHAIN=local GOFLAGS="$$(go env GOFLAGS) -mod=mod"; \
	for m in $(NEWEST); do \
		if ! grep -q "$$m " go.mod; then continue; fi; \
		found=; for v in $$(go list -m -versions -f '{{range .Versions}}{{println .}}{{end}}' "$$m" | { grep -v -- - || true; } | sort -rV); do \
			cp go.mod go.mod.was; cp go.sum go.sum.was; \
			if go get "$$m@$$v" >get.log 2>&1; then found="$$v"; break; fi; \
			mv go.mod.was go.mod; mv go.sum.was go.sum; echo "  $$m $$v: $$(tail -1 get.log)"; done; \
		if [ -z "$$found" ]; then echo "make newest: no version of $$m builds" >&2; exit 1; fi; \
		echo "$$m $$found"; done; \
	go mod tidy; go build ./...; go vet ./...; \
	go test -count=1 -p 2 -timeout 9m $$(go list ./... | { grep -v /internal/house || true; }) # which holds go.mod's floors
