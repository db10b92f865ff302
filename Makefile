# People and .ci/run use the same targets.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed-runtime
DEV := $(VENV)/.installed-dev
OLDEST := .venv-oldest/.installed
SLURM := .slurm/.installed
EXPERIMENT ?= demo
# Tests mostly wait for imports, servers and jobs: two for each core keep it busy. Each needs up to 1 GB.
WORKERS ?= $(shell cores=$$(nproc); echo $$(( cores < 4 ? 2 * cores : 8 )))
PARALLEL := -n $(WORKERS) --dist worksteal

export HF_HUB_DISABLE_TELEMETRY ?= 1
export MLFLOW_DISABLE_TELEMETRY ?= true

.PHONY: setup compare ui accept-aws accept-gpu gpu-sweep gpu-profile test test-gate test-slow test-all test-browser test-oldest test-slurm faults check format docs bench lock licences sbom clean

setup: $(RUNTIME)

compare: $(RUNTIME)
	PATH="$(CURDIR)/$(BIN):$$PATH" mlflow run . -e compare --experiment-name $(EXPERIMENT) --env-manager local -P experiment=$(EXPERIMENT)

ui: $(RUNTIME)
	$(BIN)/python -m experiments ui $(if $(filter-out file,$(origin EXPERIMENT)),--experiment '$(EXPERIMENT)')

# Run the contract of services and the main ways to train on your account: ROLE and BUDGET (USD) are required.
accept-aws: $(DEV)
	$(BIN)/python -m pytest -m aws -rs --role '$(ROLE)' --budget '$(BUDGET)' --region '$(REGION)' --bucket '$(BUCKET)' \
		--prices '$(PRICES)' tests/training/services

# On a machine with GPUs: try all settings that matter there in 30 minutes, or ONLY the named parts in 4; or in MINUTES.
# Each result is written at once. Without a GPU, say what would run, and fail.
accept-gpu: $(RUNTIME)
	$(BIN)/python -m benchmarks.gpu $(if $(MINUTES),--minutes '$(MINUTES)') $(if $(ONLY),--only $(ONLY))

# Profile the training steps of a workload, in at most MINUTES, by default 4.
gpu-profile: $(RUNTIME)
	$(BIN)/python -m benchmarks.gpu.profile_step --workload '$(WORKLOAD)' $(if $(MINUTES),--minutes '$(MINUTES)')

# On a machine with a GPU: sweep a workload to a target loss, for MINUTES (4) a call. The same command continues.
STATE ?= .gpu-sweep
gpu-sweep: MINUTES = 4
gpu-sweep: $(RUNTIME)
	$(BIN)/python -m benchmarks.gpu.sweep '$(WORKLOAD)' --minutes '$(MINUTES)' --state '$(STATE)'

# `make check` runs tests/layout.
test: $(DEV)
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest $(PARALLEL) --ignore=tests/layout -m "not slow and not oldest and not slurm and not browser and not aws"

# The slow tests that CI runs on every change: kills, budgets, and one end-to-end test of each kind.
test-gate: $(DEV) $(SLURM)
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest $(PARALLEL) -m "gate"

# All slow tests, those of the gate too.
test-slow: $(DEV)
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest $(PARALLEL) -m "slow and not oldest and not slurm and not browser and not aws"

# Needs Chromium. Screenshots are saved in test-artifacts/browser.
test-browser: $(DEV)
	$(BIN)/python -m pytest -m browser tests/browser

test-oldest: $(DEV) $(OLDEST)
	$(BIN)/python -m pytest -m oldest tests/oldest

# Real Slurm daemons on this machine; they need neither systemd nor root.
test-slurm: $(DEV) $(SLURM)
	$(BIN)/python -m pytest -m slurm tests/training/services tests/end_to_end

# Plant faults one by one in copies of the tree: a named test must find each.
faults: WORKERS = 2
faults: $(DEV)
	WORKERS='$(WORKERS)' $(BIN)/python -m tests.faults

test-all: check test test-slow test-browser test-oldest test-slurm

check: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
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

# Lock files are complete, so pip resolves nothing, and it accepts no file whose hash is not in them. pip would compile
# on one core, and would compile the packages' tests.
PIP := -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
PIP_LOCKED := $(PIP) --require-hashes -r
COMPILE := -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib
# Without an NVIDIA GPU, PyTorch's build for CPUs is installed, if pip's settings offer it: it is far smaller.
TORCH_FOR_CPU = command -v nvidia-smi >/dev/null || $(1) $(PIP_LOCKED) requirements-cpu.lock 2>/dev/null || true
# pip unpacks on one core, so three run at once: for that build, and for two halves of the other packages.
HALF := $(VENV)/half
SPLIT := awk -v half=$(HALF) '/^[^ \#]/ {name = $$1; count += name !~ /^torch==/} name !~ /^torch==/ {print > (half (count % 2) ".lock")}'
# The build for GPUs names the packages that it needs on Linux; the build for CPUs names none.
IS_GPU_BUILD := -c 'import sys; from importlib.metadata import requires; sys.exit("nvidia-" not in str(requires("torch")))'

$(RUNTIME): requirements.lock requirements-cpu.lock requirements-gpu.lock pyproject.toml | $(VENV)/bin/python
	@$(SPLIT) requirements.lock
	@($(call TORCH_FOR_CPU,$(BIN)/python)) & $(BIN)/python $(PIP_LOCKED) $(HALF)0.lock & \
		$(BIN)/python $(PIP_LOCKED) $(HALF)1.lock; code=$$?; wait; exit $$code
	$(BIN)/python $(PIP_LOCKED) requirements.lock
	@if [ "$$(uname -s)" = Linux ] && $(BIN)/python $(IS_GPU_BUILD); then \
		$(BIN)/python $(PIP_LOCKED) requirements-gpu.lock; fi
	$(BIN)/python $(PIP) --no-build-isolation --editable .
	@$(BIN)/python $(COMPILE) || true  # A few packages contain templates that are not valid Python.
	@touch $@

$(DEV): requirements-dev.lock $(RUNTIME)
	$(BIN)/python $(PIP_LOCKED) requirements-dev.lock
	@$(BIN)/python $(COMPILE) || true  # A few packages contain templates that are not valid Python.
	@touch $@

# A folder with the oldest transformers that must run the job, for use with the installed torch.
$(OLDEST): requirements-oldest.lock | $(RUNTIME)
	rm -rf .venv-oldest
	$(BIN)/python $(PIP) --target .venv-oldest --require-hashes -r requirements-oldest.lock
	@touch $@

# Debian's packages of Slurm, unpacked: nothing of them runs as a service. Daemons on the PATH are used instead.
SLURM_PACKAGES := slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libmunge2 libhwloc15
$(SLURM):
	@mkdir -p $(@D)
	@command -v slurmctld && command -v slurmd && command -v sbatch && command -v munged || { cd $(@D) && \
		{ apt-get download -qq $(SLURM_PACKAGES) || { apt-get update -qq && apt-get download -qq $(SLURM_PACKAGES); }; } && \
		for package in *.deb; do dpkg-deb -x "$$package" . || exit 1; done && rm *.deb; }
	@touch $@

# Resolve pyproject.toml, and write the lock files. Pinned versions stay, unless OPTIONS=--upgrade is given.
lock: $(DEV)
	$(BIN)/python -m dependencies.write_locks $(OPTIONS)

# Generate the table of docs/licences.md, below its text.
licences: $(DEV)
	sed '/^|/,$$d' docs/licences.md > docs/licences.md.new
	$(BIN)/pip-licenses --with-system --from=mixed --order=license --format=markdown \
		--packages $$(sed -n 's/==.*//p' requirements.lock) | sed 's/+cpu/    /; s/ *$$//' >> docs/licences.md.new
	mv docs/licences.md.new docs/licences.md

# List what `make setup` installs, with PyTorch for CPUs and for GPUs and with hashes, in the format CycloneDX.
sbom: $(DEV)
	@mkdir -p test-artifacts
	cat requirements.lock requirements-cpu.lock requirements-gpu.lock | $(BIN)/python -W ignore -m cyclonedx_py \
		requirements --pyproject pyproject.toml --output-reproducible --validate --output-file test-artifacts/sbom.json -

clean:
	rm -rf $(VENV) .venv-* .slurm .mypy_cache .ruff_cache .pytest_cache .hypothesis
