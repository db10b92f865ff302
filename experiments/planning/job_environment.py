"""Environment variables of a job. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from experiments.planning.inputs import Inputs
from experiments.planning.script_inputs import ScriptInputs
from experiments.schema import script_rules
from experiments.schema.experiment import Experiment
from training.services.local.container import PYTHON_VARIABLE, SECRET_VARIABLES
from training.services.local.supervisor import MEASURE_VARIABLE
from training.staging.tokens.staged import Staged
from training.state.home import compile_cache

# glibc's mallopt(3): large blocks come from the heap instead of mmap, and freed heap is not returned. So no step waits
# for the kernel to map and zero memory for its activations and gradients again.
KEEPING_ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
}


def environment(experiment: Experiment, staged: Inputs, home: Path) -> dict[str, str]:
    """Return the variables of a job's request. A script's own variables come last."""
    machine = experiment.machine
    variables: Mapping[str, object | None] = {
        "TRAINFARE_CORES": machine.cores,
        # torchrun kills 30 s after SIGTERM, which can be too early to write a checkpoint. A service kills after 120 s.
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": 110 if machine.devices * machine.instance_count > 1 else None,
        "TRAINFARE_MEMORY_GIB": machine.memory_gib,
        SECRET_VARIABLES: _secret_variables(experiment),
        MEASURE_VARIABLE: 1 if experiment.script and experiment.service == "local" else None,
        "TORCHINDUCTOR_CACHE_DIR": _compile_cache(experiment, staged, home),
    }
    if isinstance(staged, ScriptInputs) and staged.environment:
        variables = {**variables, PYTHON_VARIABLE: staged.environment.python}
    own = experiment.script.environment if experiment.script else {}
    return (
        KEEPING_ALLOCATOR | {variable: str(value) for variable, value in variables.items() if value is not None} | own
    )


def _secret_variables(experiment: Experiment) -> str | None:
    """Return the names of the variables with the job's secrets. A request must not contain their values."""
    names = experiment.script.secrets if experiment.script and experiment.service == "local" else ()
    return ",".join(names) or None


def _compile_cache(experiment: Experiment, staged: Inputs, home: Path) -> Path:
    """Return the folder of the compile cache: one per setting of a script, which does not report the cache's state."""
    if isinstance(staged, Staged):
        return compile_cache(home)
    assert experiment.script is not None
    fields = script_rules.referenced_fields(experiment.script)
    arguments = script_rules.hyperparameters(experiment)
    setting = {name: value for name, value in arguments.items() if fields.get(name) != "seed"}
    key = hashlib.sha256(f"{staged.key} {json.dumps(setting, sort_keys=True)}".encode()).hexdigest()[:16]
    return compile_cache(home) / f"script-{key}"
