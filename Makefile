# People and .ci/run use the same targets.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed-runtime
DEV := $(VENV)/.installed-dev
OLDEST := .venv-oldest/.installed
EXPERIMENT ?= demo
# Tests mostly wait for imports, servers and jobs: two for each core keep it busy. Each needs up to 1 GB.
WORKERS ?= $(shell cores=$$(nproc); echo $$(( cores < 4 ? 2 * cores : 8 )))
PARALLEL := -n $(WORKERS) --dist worksteal

export HF_HUB_DISABLE_TELEMETRY ?= 1
export MLFLOW_DISABLE_TELEMETRY ?= true

.PHONY: setup compare ui test test-slow test-browser test-oldest check format docs bench lock clean

setup: $(RUNTIME)

# MLflow opens the database before our code: prepare it first, so that a kill leaves no half-made one.
compare: $(RUNTIME)
	$(BIN)/python -m tracking.server.database
	PATH="$(CURDIR)/$(BIN):$$PATH" mlflow run . -e compare --experiment-name $(EXPERIMENT) --env-manager local -P experiment=$(EXPERIMENT)

ui: $(RUNTIME)
	$(BIN)/python -m experiments ui $(if $(filter-out file,$(origin EXPERIMENT)),--experiment '$(EXPERIMENT)')

# `make check` runs tests/layout.
test: $(DEV)
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest $(PARALLEL) --ignore=tests/layout -m "not slow and not oldest and not browser"

test-slow: $(DEV)
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest $(PARALLEL) -m "slow and not oldest and not browser"

# Needs Chromium. Screenshots are saved in test-artifacts/browser.
test-browser: $(DEV)
	$(BIN)/python -m pytest -m browser tests/browser

test-oldest: $(DEV) $(OLDEST)
	TRAINFARE_OLDEST_PYTHON="$(CURDIR)/.venv-oldest/bin/python" $(BIN)/python -m pytest -m oldest tests/oldest

check: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	cd training/job && ../../$(BIN)/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache/job train.py
	$(BIN)/python -m pip check --disable-pip-version-check
	$(BIN)/python -m pytest tests/layout

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Generate docs/experiments.md from the schema.
docs: $(DEV)
	$(BIN)/python -m experiments.schema.reference

bench: $(DEV)
	$(BIN)/python -m benchmarks

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "trainfare needs Python 3.11 or later: set PYTHON=... to choose one")'
	$(PYTHON) -m venv $(VENV)

# Lock files are complete, so pip resolves nothing. pip would compile on one core, and would compile the packages' tests.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
COMPILE := -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib

# The second line installs the command `trainfare`.
$(RUNTIME): requirements.lock pyproject.toml | $(VENV)/bin/python
	$(BIN)/python $(PIP_INSTALL) -r requirements.lock
	$(BIN)/python $(PIP_INSTALL) --no-build-isolation --editable .
	@$(BIN)/python $(COMPILE) || true  # A few packages contain templates that are not valid Python.
	@touch $@

$(DEV): requirements-dev.lock $(RUNTIME)
	$(BIN)/python $(PIP_INSTALL) -r requirements-dev.lock
	@$(BIN)/python $(COMPILE) || true  # A few packages contain templates that are not valid Python.
	@touch $@

# Oldest versions that must run the job and read its channels. SageMaker's Training Compiler images have similar ones.
$(OLDEST): requirements-oldest.lock
	$(PYTHON) -m venv --clear .venv-oldest
	.venv-oldest/bin/python $(PIP_INSTALL) -r requirements-oldest.lock
	@touch $@

# Resolve pyproject.toml again, in a separate environment.
lock:
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet $$($(PYTHON) -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); print(*p["project"]["dependencies"], *p["build-system"]["requires"])')
	.venv-lock/bin/python -m pip freeze --all | sed 's/+cpu$$//' | grep -v '^pip==' > requirements.lock
	.venv-lock/bin/python -m pip install --quiet -c requirements.lock $$($(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"])')
	.venv-lock/bin/python -m pip freeze --all | sed 's/+cpu$$//' | grep -vxFf requirements.lock | grep -v '^pip==' > requirements-dev.lock
	rm -rf .venv-lock

clean:
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis
