"""Rules of an experiment that names a script: what its hyperparameters may take from the experiment."""

from __future__ import annotations

from dataclasses import asdict

from experiments.schema.fields import ExperimentFields
from experiments.schema.overrides import known_fields
from experiments.schema.script_fields import Script
from training.contract.errors import nearest
from training.contract.job_spec import Scalar

SIGN = "$"

OF_THE_PLATFORM = frozenset(
    {
        "description",
        "script",
        "service",
        "machine",
        "aws",
        "compare",
        "sweep",
        "compiler",
        "compiler_debug",
        "compile_cache",
        "learning_rate_scaling",
    }
)
"""Fields that hold for any job, or only say how others are worked out."""

_RATE = {"base_learning_rate", "base_batch_size", "learning_rate_multiplier", "max_learning_rate"}

DERIVED = {
    "learning_rate": _RATE | {"batch_size"},
    "adam_beta1": {"adam_beta1", "base_batch_size", "batch_size"},
    "adam_beta2": {"adam_beta2", "base_batch_size", "batch_size"},
    "adam_epsilon": {"adam_epsilon", "base_batch_size", "batch_size"},
    "global_batch_size": {"batch_size", "gradient_accumulation_steps"},
}
"""What `$name` stands for beside the fields: values scaled to the global batch, and the fields that they come from."""


def taken(script: Script) -> dict[str, str]:
    """Return which field each hyperparameter takes its value from, by hyperparameter."""
    return {
        name: value.removeprefix(SIGN)
        for name, value in script.hyperparameters.items()
        if isinstance(value, str) and value.startswith(SIGN) and not value.startswith(2 * SIGN)
    }


def hyperparameters(experiment: ExperimentFields) -> dict[str, Scalar]:
    """Return the script's hyperparameters with `$name` filled from the experiment; `$$` is a plain `$`."""
    assert experiment.script is not None
    fields = taken(experiment.script)
    found: dict[str, Scalar] = {}
    for name, value in experiment.script.hyperparameters.items():
        if name in fields:
            found[name] = value_of(experiment, fields[name])
        elif value is not None:
            escaped = isinstance(value, str) and value.startswith(2 * SIGN)
            found[name] = str(value).removeprefix(SIGN) if escaped else value
    return found


def shown(experiment: ExperimentFields) -> dict[str, Scalar]:
    """Return the hyperparameters to log: the script's own, and batch size and learning rate under our names too."""
    assert experiment.script is not None
    used = set(taken(experiment.script).values())
    ours: dict[str, Scalar] = {
        name: value_of(experiment, name) for name in ("batch_size", "learning_rate") if name in used
    }
    return ours | hyperparameters(experiment)


def value_of(experiment: ExperimentFields, name: str) -> Scalar:
    """Return what `$name` stands for; the optimiser's settings are those of the global batch size."""
    derived: dict[str, Scalar] = {**asdict(experiment.optimiser), "global_batch_size": experiment.global_batch_size}
    if name in derived:
        return derived[name]
    found: object = experiment
    for part in name.split("."):
        found = getattr(found, part)
    if found is None and name == "eval_batch_size":
        return experiment.batch_size
    if found is None:
        raise ValueError(f"{SIGN}{name} has no value: {name} is not set")
    assert isinstance(found, Scalar)
    return found


def check_script(experiment: ExperimentFields) -> None:
    """Raise ValueError for a `$name` that stands for nothing, and for a field that would change nothing."""
    assert experiment.script is not None
    fields = taken(experiment.script)
    for hyperparameter, field in fields.items():
        place = f"script.hyperparameters.{hyperparameter}"
        if field not in names():
            raise ValueError(f"{place} {SIGN}{field} stands for no field.{nearest(field, names())}")
        value_of(experiment, field)
    _check_compiler(experiment, set(fields.values()))
    used = set(fields.values()).union(*(DERIVED.get(field, ()) for field in fields.values()))
    for field in sorted(experiment.model_fields_set - OF_THE_PLATFORM - used):
        if getattr(experiment, field) is not None:
            raise ValueError(_without_effect(field))
    if used & {"base_learning_rate"} and not {"batch_size", "global_batch_size"} & set(fields.values()):
        raise ValueError(
            f"script.hyperparameters takes {SIGN}learning_rate, which follows from batch_size, but not "
            f"{SIGN}batch_size: the script would train with another batch"
        )


def _check_compiler(experiment: ExperimentFields, used: set[str]) -> None:
    if experiment.compiler == "inductor" and "compiler" not in used:
        raise ValueError(
            f"compiler 'inductor' would change nothing: the script compiles by itself, where one of "
            f"script.hyperparameters tells it to, such as torch_compile_backend: {SIGN}compiler"
        )


def _without_effect(field: str) -> str:
    if field == "data":
        return "data goes with a task: a script reads its files from script.channels"
    if field in names():
        taken_as = "learning_rate" if field in _RATE else field
        return f"{field} would change nothing: no hyperparameter of the script takes {SIGN}{taken_as}"
    return f"{field} goes with a task, and a script has none"


def names() -> list[str]:
    """Return what may follow the `$`: every field of a single value, and what is derived from them."""
    apart = ("description", "task", "script", "data", "target", "compare", "service", "aws")
    scalar = {str, int, float, bool, type(None)}
    plain = [name for name, kinds in known_fields().items() if kinds <= scalar and name.split(".")[0] not in apart]
    return [*plain, *(name for name in DERIVED if name not in plain)]
