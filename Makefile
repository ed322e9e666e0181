.DEFAULT_GOAL := help
SHELL := bash

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOCK   := requirements.lock
READY  := $(VENV)/.ready
LOCKER := $(VENV)-lock

.PHONY: help setup demo test test-all lint format bench lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## make .venv with the locked packages and this one; at once when nothing changed
	@:

$(READY): $(LOCK) pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $(LOCK)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup  ## run every join on a small stream and compare them
	$(BIN)/penstock bench join --join all --rows 200000 --stream 400000 --budget 4MB --limit 2

test: setup  ## run the tests on two cores; joins, masters and keys are paired, not crossed
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-all: setup  ## the same with every join on every master with every kind of key
	$(BIN)/python -m pytest -n 2 --dist loadgroup --conformance=all

lint: setup  ## ruff, mypy and the import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## let ruff format the code and repair what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup  ## measure every join at the size the documentation quotes, into benchmarks/
	$(BIN)/python benchmarks/reference.py
	@cat benchmarks/reference.md

# uv has a venv of its own: it resolves for all Pythons and platforms, and nothing else needs it.
lock: setup  ## write requirements.lock anew from pyproject.toml; UPGRADE=1 takes the newest versions
	@test -x $(LOCKER)/bin/uv || { $(PYTHON) -m venv $(LOCKER) && $(LOCKER)/bin/python -m pip install --quiet --disable-pip-version-check uv; }
	$(LOCKER)/bin/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header \
		--no-emit-index-url --no-emit-find-links --all-extras --group dev $(if $(UPGRADE),--upgrade) \
		--output-file $(LOCK) pyproject.toml
	@! grep -n '://' $(LOCK) || { echo "$(LOCK) names a host; it must not" >&2; exit 1; }

clean:  ## remove .venv and everything the tools left behind
	rm -rf $(VENV) $(LOCKER) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
