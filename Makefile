# The commands of a developer and of a first user. `make serve ARGS="--http-port 9000"` passes flags on.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq install
# Without a CUDA device the small CPU build of torch is enough.
TORCH_CPU := 2.13.0
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
ARGS ?=
SERVE_STAMP := .venv/.installed-serve
DEV_STAMP := .venv/.installed-dev

.PHONY: help install serve test dev redis lint type proto e2e chaos soak bench clean

help: ## list the commands
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9]+):.*## /make \1\t/' | expand -t 16

install: $(SERVE_STAMP) ## make .venv with all that serving needs

serve: install ## fetch the default model if need be, and serve it
	@exec $(BIN)/dspark serve $(ARGS)

test: dev redis lint type ## install what tests need, check the code, run all tests
	@$(BIN)/pytest $(ARGS)

dev: $(DEV_STAMP)

lint: dev ## style, import rules, protos
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@cd protos && ../$(BIN)/buf lint

type: dev ## types
	@$(BIN)/mypy

proto: dev ## generate the stubs in shared/dspark/v1
	cd protos && ../$(BIN)/python -m grpc_tools.protoc -I . --python_out=../shared --pyi_out=../shared dspark/v1/*.proto
	cd protos && ../$(BIN)/python -m grpc_tools.protoc -I . --grpc_python_out=../shared dspark/v1/*_service.proto

e2e: dev ## only the tests that start the services as processes
	@$(BIN)/pytest tests/e2e $(ARGS)

chaos: dev redis ## minutes of faults of every kind under load; CHAOS_SEED=N draws others
	@$(BIN)/pytest tests/chaos/test_long_storm.py -m long -s $(ARGS)

soak: dev redis ## ten minutes of load: memory stays level
	@$(BIN)/pytest tests/chaos/test_soak.py -m long -s $(ARGS)

bench: install ## measure with PROMPTS=FILE.json
	@$(BIN)/dspark bench --embedded --prompts $(PROMPTS) $(ARGS)

clean: ## delete .venv and caches of tools; prepared models stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: Python 3.11 or newer is needed; set PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "error: Python lacks venv: install it, for example with apt-get install python3-venv" >&2; exit 1; }
	@echo "making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv && $(PIP) --upgrade pip

# pip prefers a +cpu build of the same version, so the index of CPU builds is asked only if need be.
.venv/.installed-torch: | $(BIN)/python
	@echo "installing torch: some hundred MB, this takes a while"
	@if $(BIN)/python -c 'import torch' 2>/dev/null; then true; \
	elif nvidia-smi -L >/dev/null 2>&1; then $(PIP) torch; \
	elif $(BIN)/python -m pip index versions torch 2>/dev/null | grep -cF '$(TORCH_CPU)+cpu' >/dev/null; \
	then $(PIP) torch==$(TORCH_CPU); \
	else $(PIP) torch==$(TORCH_CPU) --extra-index-url $(TORCH_CPU_INDEX); fi
	@touch $@

$(SERVE_STAMP): pyproject.toml | .venv/.installed-torch
	@echo "installing DSpark and what it needs"
	@$(PIP) -e '.[serve]'
	@touch $@

$(DEV_STAMP): $(SERVE_STAMP)
	@echo "installing the tools of developers"
	@$(PIP) -e '.[serve,dev]'
	@touch $@

redis:
	@if command -v redis-server >/dev/null; then true; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing redis-server" && apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-server; \
	else echo "error: tests need redis-server: install it, for example with sudo apt-get install redis-server" >&2; exit 1; fi
