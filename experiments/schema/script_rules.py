"""Rules for an experiment that runs a script: which fields its hyperparameters can refer to."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import JsonValue

from experiments.schema.fields import BUDGET_FIELDS, ExperimentFields
from experiments.schema.overrides import known_fields
from experiments.schema.script_fields import Script
from training.contract.errors import nearest
from training.contract.job_spec import Scalar
from training.services.registry import services_with, traits_of

SIGN = "$"

INDEPENDENT_OF_SCRIPT = frozenset(
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
        "learning_rate_scaling",
        *BUDGET_FIELDS,
    }
)
"""Fields that apply to any job, or only control how other fields are computed."""

_NAME_CHARACTERS = 60
"""Most characters of a name in a message."""
_RATE = {"base_learning_rate", "base_batch_size", "learning_rate_multiplier", "max_learning_rate"}

DERIVED = {
    "learning_rate": _RATE | {"batch_size"},
    "adam_beta1": {"adam_beta1", "base_batch_size", "batch_size"},
    "adam_beta2": {"adam_beta2", "base_batch_size", "batch_size"},
    "adam_epsilon": {"adam_epsilon", "base_batch_size", "batch_size"},
    "global_batch_size": {"batch_size", "gradient_accumulation_steps"},
}
"""Computed values that `$name` can refer to -> the fields that they depend on."""


def referenced_fields(script: Script) -> dict[str, str]:
    """Return the field whose `$field` each hyperparameter contains, by the hyperparameter's name."""
    return {
        name: value.removeprefix(SIGN)
        for name, value in script.hyperparameters.items()
        if isinstance(value, str) and value.startswith(SIGN) and not value.startswith(2 * SIGN)
    }


def hyperparameters(experiment: ExperimentFields) -> dict[str, JsonValue]:
    """Return the script's hyperparameters with each `$name` replaced by its value, without null.

    `$$` is a literal `$`. Text within lists and mappings stays as it is.
    """
    assert experiment.script is not None
    fields = referenced_fields(experiment.script)
    values: dict[str, JsonValue] = {}
    for name, value in experiment.script.hyperparameters.items():
        if name in fields:
            values[name] = value_of(experiment, fields[name])
        elif value is not None:
            escaped = isinstance(value, str) and value.startswith(2 * SIGN)
            values[name] = str(value).removeprefix(SIGN) if escaped else value
    return values


def logged_hyperparameters(experiment: ExperimentFields) -> dict[str, JsonValue]:
    """Return the hyperparameters to log: one that refers to a field by the field's name, others by their own.

    `lr: $learning_rate` is logged as `learning_rate`, unless the script has another hyperparameter of this name.
    """
    assert experiment.script is not None
    fields, values = referenced_fields(experiment.script), hyperparameters(experiment)
    logged = {}
    for name, value in values.items():
        field = fields.get(name, name)
        is_taken = "." in field or (field in values and fields.get(field) != field)
        logged[name if is_taken else field] = value
    return logged


def value_of(experiment: ExperimentFields, name: str) -> Scalar:
    """Return the value of `$name`. Settings of the optimizer are those at the global batch size."""
    derived: dict[str, Scalar] = {**asdict(experiment.optimiser), "global_batch_size": experiment.global_batch_size}
    if name in derived:
        return derived[name]
    value: object = experiment
    for part in name.split("."):
        value = getattr(value, part)
    if value is None and name == "eval_batch_size":
        return experiment.batch_size
    if value is None:
        raise ValueError(f"{SIGN}{name} has no value: {name} is not set")
    assert isinstance(value, Scalar)
    return value


def check_script(experiment: ExperimentFields) -> None:
    """Raise ValueError for an unknown `$name`, and for a field that would have no effect."""
    assert experiment.script is not None
    missing = [name for name, secret in experiment.script.secrets.items() if secret is None]
    traits = traits_of(experiment.service)
    if traits.runs_containers and missing:
        raise ValueError(
            f"script.secrets.{missing[0]} needs the name of a secret in AWS Secrets Manager on {traits.label}, because "
            "jobs do not get variables of this machine"
        )
    for name, channel in experiment.script.channels.items():
        if not traits.streams_channels and (reason := channel.needs_streams):
            raise ValueError(
                f"script.channels.{_cut(name)} {reason} is not read on {traits.label}: set service to "
                f"{services_with('streams_channels')}, or download the data and name its folder"
            )
    fields = referenced_fields(experiment.script)
    for hyperparameter, field in fields.items():
        if field not in referable_names():
            raise ValueError(
                f"script.hyperparameters.{_cut(hyperparameter)} refers to {SIGN}{_cut(field)}, which is not a field."
                f"{nearest(field, referable_names())}"
            )
        value_of(experiment, field)
    if experiment.compiler == "inductor" and "compiler" not in fields.values():
        raise ValueError(
            f"compiler 'inductor' would have no effect, because the script itself must compile. Pass the compiler by "
            f"script.hyperparameters, for example torch_compile_backend: {SIGN}compiler"
        )
    used = set(fields.values()).union(*(DERIVED.get(field, ()) for field in fields.values()))
    for field in sorted(experiment.model_fields_set - INDEPENDENT_OF_SCRIPT - used):
        if getattr(experiment, field) is not None:
            raise ValueError(_without_effect(field))
    if used & {"base_learning_rate"} and not {"batch_size", "global_batch_size"} & set(fields.values()):
        raise ValueError(
            f"script.hyperparameters refers to {SIGN}learning_rate, which depends on batch_size, but not to "
            f"{SIGN}batch_size: the script would train with a different batch size"
        )


def _cut(name: str) -> str:
    """Return a name short enough for a message."""
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 3]}..."


def _without_effect(field: str) -> str:
    if field == "data":
        return "data requires a task: a script reads its files from script.channels"
    if field in referable_names():
        referred_to_as = "learning_rate" if field in _RATE else field
        return f"{field} would have no effect: no hyperparameter of the script refers to {SIGN}{referred_to_as}"
    return f"{field} requires a task, but the experiment runs a script"


def referable_names() -> list[str]:
    """Return the names that can follow `$`: all fields with a single value, and the values derived from them."""
    excluded = ("description", "task", "script", "data", "target", "compare", "service", "aws")
    scalar = {str, int, float, bool, type(None)}
    plain = [name for name, kinds in known_fields().items() if kinds <= scalar and name.split(".")[0] not in excluded]
    return [*plain, *(name for name in DERIVED if name not in plain)]
