.DEFAULT_GOAL := help
SHELL := bash

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOCK   := requirements.lock
READY  := $(VENV)/.ready
LOCKER := $(VENV)-lock
# Spark versions beside the locked one: the newest of each line, in a venv and a lock of its own.
SPARKS := 4.0 4.3
LEAST_PYTHON_4.3 := 3.11
PIP    := -m pip install --quiet --disable-pip-version-check

.PHONY: help setup java jars servers registry demo test test-cluster test-all test-compat $(SPARKS:%=test-spark-%) chaos lint format bench bench-spark lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## make .venv with the locked packages and this one; at once when nothing changed
	@:

$(READY): $(LOCK) pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --require-hashes --requirement $(LOCK)
	$(BIN)/python $(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# Java 17 or newer, installed if that needs no password; at once when it is there.
java: setup  ## install Java 17 for Spark where there is none and this may
	@tools/java.sh $(BIN)/python

jars:  ## fetch the jars that pipelines need for Kafka and Delta, by Maven
	@tools/jars.sh connectors

servers: jars  ## install PostgreSQL, MariaDB, Kafka and an S3 store, which tests start, where they are missing
	@tools/servers.sh
	@tools/jars.sh broker
	@tools/jars.sh store

registry:  ## fetch a schema registry, which the tests of whole pipelines start, by Maven
	@tools/jars.sh registry

demo: java  ## stream sales through Spark, enrich them under 50 MB, and prove the result: a minute or two
	@$(BIN)/penstock demo $(DEMO)

test: java servers  ## run the tests on two cores; joins, masters and keys are paired, not crossed
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not cluster"

test-cluster: java servers registry  ## kill workers, executors, drivers and servers of running queries; whole commands: some minutes
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m cluster tests

test-all: java servers registry  ## the same with every join on every master with every kind of key
	$(BIN)/python -m pytest -n 2 --dist loadgroup --conformance=all

# One process each, side by side: the tests of one version share one Spark session.
test-compat: java  ## the tests of penstock on Spark, on the other versions of Spark that are supported
	@$(MAKE) --no-print-directory --jobs $(words $(SPARKS)) --output-sync=target $(SPARKS:%=test-spark-%)

$(SPARKS:%=test-spark-%): test-spark-%: $(VENV)-spark-%/.ready
	$(VENV)-spark-$*/bin/python -m pytest -p no:cacheprovider -m compat tests/spark

$(VENV)-spark-%/.ready: requirements-spark-%.lock
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP) --require-hashes --requirement $<
	$(@D)/bin/python $(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

lint: setup  ## ruff, mypy and the import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## let ruff format the code and repair what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup  ## measure every join at the size the documentation quotes, into benchmarks/: half an hour, on an idle machine
	$(BIN)/python benchmarks/reference.py
	$(BIN)/python benchmarks/grid.py
	@cat benchmarks/reference.md benchmarks/grid.md

bench-spark: java  ## measure enrich on Spark beside Spark's own join, into benchmarks/: half an hour, on an idle machine
	$(BIN)/python benchmarks/spark.py
	@cat benchmarks/spark.md

chaos: java  ## kill parts of running Spark queries hundreds of times, and write what was seen to benchmarks/
	PYTHONPATH=. $(BIN)/python benchmarks/chaos.py $(if $(TRIALS),--trials $(TRIALS))
	@cat benchmarks/chaos.md

COMPILE = $(LOCKER)/bin/uv pip compile --quiet --universal --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade)

# uv has a venv of its own: it resolves for all Pythons and platforms, and nothing else needs it.
lock: setup  ## write the requirements*.lock anew from pyproject.toml; UPGRADE=1 takes the newest versions
	@test -x $(LOCKER)/bin/uv || { $(PYTHON) -m venv $(LOCKER) && $(LOCKER)/bin/python $(PIP) uv; }
	$(COMPILE) --python-version 3.10 --all-extras --group dev --output-file $(LOCK) pyproject.toml
	@$(foreach spark,$(SPARKS),echo 'pyspark~=$(spark).0' | $(COMPILE) --extra spark --group spark-tests \
		--python-version $(or $(LEAST_PYTHON_$(spark)),3.10) --constraint - --output-file requirements-spark-$(spark).lock pyproject.toml && ) true
	@! grep -n '://' requirements*.lock || { echo "a lock names a host; it must not" >&2; exit 1; }

clean:  ## remove the venvs and everything the tools left behind
	rm -rf $(VENV) $(LOCKER) $(SPARKS:%=$(VENV)-spark-%) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
