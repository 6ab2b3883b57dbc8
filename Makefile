# Every target does all of its own set-up: a clone, Python >= 3.11 and (for the demo) Java >= 17 are enough.
# CONSTRAINTS=constraints.txt installs the exact versions that CI tests with.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS ?=
PIP_ARGUMENTS := $(if $(CONSTRAINTS),-c $(CONSTRAINTS))
PYTEST_ARGUMENTS ?=
SIMULATE_SECONDS ?= 60

.DEFAULT_GOAL := help
.PHONY: help install demo test lint types imports unit cluster interop e2e simulate bench jars clean

help: ## Show this list.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

install: $(VENV)/.installed ## Make .venv with everything that development needs.

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, $$($(PYTHON) --version) is there; try make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@echo "installing Ottla and its tools into $(VENV) (PySpark is large: a minute or two the first time)"
	$(BIN)/python -m pip install --quiet $(PIP_ARGUMENTS) -e '.[broker,operator,spark]' --group dev
	@touch $@

demo: $(VENV)/.installed ## Real flights through three brokers and a Spark pipeline, checked and drawn.
	$(BIN)/ottla demo

test: lint types imports unit cluster interop ## Everything that needs no Kubernetes.

lint: $(VENV)/.installed workflows ## Style and format; the workflows, where Go is there.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed ## mypy, strict.
	$(BIN)/mypy

imports: $(VENV)/.installed ## Who may import whom.
	$(BIN)/lint-imports

jars: $(VENV)/.installed ## Spark's connector and Delta, from Maven Central; what needs them is skipped when they cannot be had.
	@$(BIN)/python -m ottla_spark.jars >/dev/null || echo "the jars are not there: tests that need Spark are skipped"

unit: jars ## Tests of the parts.
	$(BIN)/python -m pytest -m "not e2e and not interop and not cluster" -n auto $(PYTEST_ARGUMENTS)

cluster: $(VENV)/.installed ## Clusters of real processes that are killed, stopped and rolled under load.
	$(BIN)/python -m pytest -m "cluster and not interop" $(PYTEST_ARGUMENTS)

interop: $(VENV)/.installed ## Real clients against a real node; Kafka's own tools where OTTLA_KAFKA_LIBS is set.
	$(BIN)/python -m pytest -m interop $(PYTEST_ARGUMENTS)

e2e: $(VENV)/.installed ## On the Kubernetes of KUBECONFIG, else on a kind cluster made for it.
	tests/e2e/run $(PYTEST_ARGUMENTS)

simulate: $(VENV)/.installed ## Fresh seeds in the simulator, for SIMULATE_SECONDS of real time.
	$(BIN)/python -m ottla.simulator --seconds $(SIMULATE_SECONDS)

bench: $(VENV)/.installed ## Measure this machine; see benchmarks/README.md.
	$(BIN)/python benchmarks/compare.py

include release.mk

clean: ## Remove what was built, installed or measured here.
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .demo
