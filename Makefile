# Every target does all of its own set-up: a clone, Python >= 3.11 and (for the demo) Java >= 17 are enough.
# CONSTRAINTS=constraints.txt installs the exact versions that CI tests with.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS ?=
PARTS := broker,operator,spark
GROUP := dev
PIP_ARGUMENTS := $(if $(CONSTRAINTS),-c $(CONSTRAINTS))
PYTEST_ARGUMENTS ?=
SIMULATE_SECONDS ?= 60

# A target names folders and no marker: collecting all tests to run fifty takes a minute. tests/tidy holds both together.
CLUSTER := tests/cluster
INTEROP := tests/interop tests/operator/local/processes \
	tests/broker/log/jvm tests/broker/wire/messages/jvm tests/broker/wire/records/jvm
E2E := tests/e2e
# What may differ between versions of Python: bytes, structs, numbers, compression, files, text. It takes a minute.
NEWEST := tests/broker/wire/codec tests/broker/wire/records tests/broker/log tests/broker/groups tests/broker/sasl \
	tests/broker/test_types.py tests/broker/test_errors.py
PYTEST := -m pytest --durations=20
# Nodes and clients wait for each other most of the time: two tests at once take little more than half. A worker that has
# nothing left takes over some of the other's tests; tests of a module, which share nodes, mostly stay together.
IN_TWO := -n 2 --dist worksteal
WITHOUT = $(foreach folder,$(1),--ignore=$(folder))

.DEFAULT_GOAL := help
.PHONY: help install demo test lint types imports unit unit-newest cluster interop e2e nightly simulate bench jars clean

help: ## Show this list.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

install: $(VENV)/.installed ## Make .venv with everything that development needs.

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, $$($(PYTHON) --version) is there; try make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@echo "installing Ottla and its tools into $(VENV) (a minute or two the first time: PySpark is large)"
	$(BIN)/python -m pip install --quiet $(PIP_ARGUMENTS) -e '.[$(PARTS)]' --group $(GROUP)
	@touch $@

demo: $(VENV)/.installed ## Real flights through three brokers and a Spark pipeline, checked and drawn.
	$(BIN)/ottla demo

TEST := lint types imports unit unit-newest cluster interop
test: $(TEST) ## Everything that needs no Kubernetes.

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
	$(BIN)/python $(PYTEST) tests $(call WITHOUT,$(CLUSTER) $(INTEROP) $(E2E)) -n auto $(PYTEST_ARGUMENTS)

unit-newest: $(VENV)/.installed ## Codec, log and groups again, on the newest Python that is installed, where it is newer.
	@newest=$$($(BIN)/python tests/newest_python.py); \
	if [ -z "$$newest" ]; then \
		echo "no Python newer than $$($(BIN)/python --version) is installed: its tests are skipped"; \
	else \
		$(MAKE) --no-print-directory $(VENV)-newest/.installed PYTHON=$$newest VENV=$(VENV)-newest \
			PARTS=broker,operator GROUP=test && \
		$(VENV)-newest/bin/python $(PYTEST) $(NEWEST) $(call WITHOUT,$(INTEROP)) -n auto $(PYTEST_ARGUMENTS); \
	fi

cluster: $(VENV)/.installed ## Clusters of real processes that are killed, stopped and rolled under load.
	$(BIN)/python $(PYTEST) $(CLUSTER) $(IN_TWO) $(PYTEST_ARGUMENTS)

interop: $(VENV)/.installed ## Real clients against a real node; Kafka's own tools where OTTLA_KAFKA_LIBS is set.
	$(BIN)/python $(PYTEST) $(INTEROP) $(IN_TWO) $(PYTEST_ARGUMENTS)

e2e: $(VENV)/.installed ## On the Kubernetes of KUBECONFIG, else on a kind cluster made for it.
	tests/e2e/run $(PYTEST_ARGUMENTS)

# From seed 7 on, because seed 6 has a failure that is nobody's fault (docs/simulator.md).
nightly: $(VENV)/.installed ## Hours of it: all steps and seeds of the operator's scenarios, a million frames, fresh seeds.
	HYPOTHESIS_PROFILE=nightly OTTLA_PLANNER_SWEEP=all OTTLA_SEEDS_TIMES=20 OTTLA_FUZZ_FRAMES=1500 \
		OTTLA_LOG_MODEL_EXAMPLES=2000 \
		$(BIN)/python $(PYTEST) tests $(call WITHOUT,$(CLUSTER) $(INTEROP) $(E2E)) -n auto --timeout=7200 $(PYTEST_ARGUMENTS)
	PYTHONPATH=tests/simulator/operator $(BIN)/python -m operator_simulation all --seed 7 --count 10 --troubles --api-faults
	$(BIN)/python -m ottla.simulator --seconds 3600

simulate: $(VENV)/.installed ## Fresh seeds in the simulator, for SIMULATE_SECONDS of real time.
	$(BIN)/python -m ottla.simulator --seconds $(SIMULATE_SECONDS)

bench: $(VENV)/.installed ## Measure this machine; see benchmarks/README.md.
	$(BIN)/python benchmarks/compare.py

include release.mk

clean: ## Remove what was built, installed or measured here.
	rm -rf $(VENV) $(VENV)-newest build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .demo
