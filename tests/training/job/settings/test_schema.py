"""The job's arguments agree with the experiment's schema, which defines every name, default and rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import annotated_types
from pydantic.fields import FieldInfo

from experiments.planning.hyperparameters import hyperparameters
from experiments.planning.load import load
from experiments.schema.compare_fields import Calibration, Probe, Target
from experiments.schema.fields import ExperimentFields
from training.job.settings.arguments import CHOICES, FIELDS, REQUIRED, RULES, parse

SECTIONS = {"probe": Probe, "calibration": Calibration, "target": Target}
DERIVED = {"learning_rate"}
"""Arguments that are computed from several fields."""
SWITCHES = {"probe_precision"}
"""Arguments that are None without their section. With the section, the field's default applies."""


def schema_field(argument: str) -> FieldInfo:
    """Return the experiment's field from which an argument has its name."""
    section, _, name = argument.partition("_")
    if argument not in ExperimentFields.model_fields:
        return SECTIONS[section].model_fields[name]
    return ExperimentFields.model_fields[argument]


def test_every_plan_passes_the_required_arguments() -> None:
    planned = hyperparameters(load("demo", {}), (32, 64))
    assert set(REQUIRED) <= planned.keys()
    assert set(planned) - set(REQUIRED) == {"model", "bucket_lengths", "epochs"}


def test_the_jobs_defaults_choices_and_rules_are_the_schemas() -> None:
    for name in set(FIELDS) - DERIVED - SWITCHES - set(REQUIRED):
        default = schema_field(name).get_default(call_default_factory=True)
        if schema_field(name).is_required():
            default = None
        assert FIELDS[name].default in (default, default or "", default or ()), name
    for name, choices in CHOICES.items():
        # The planner converts eval_strategy samples to steps.
        converted = {"samples"} if "eval" in name else set()
        assert set(choices) == literals(schema_field(name).annotation) - converted, name
    for name in set(RULES) - DERIVED:
        ((kind, smallest),) = bounds(schema_field(name))
        _, is_valid = RULES[name]
        assert is_valid(smallest if kind == "ge" else smallest + 1e-9), name


def literals(annotation: Any) -> set[str]:
    return {each for part in get_args(annotation) for each in (get_args(part) or (part,)) if isinstance(each, str)}


def bounds(field: FieldInfo) -> Iterator[tuple[str, float]]:
    """Yield the schema's bounds of a number."""
    parts = [field.annotation, *get_args(field.annotation)]
    for each in [*field.metadata, *(m for part in parts for m in getattr(part, "__metadata__", ()))]:
        for bound in [each, *getattr(each, "metadata", ())]:
            if isinstance(bound, annotated_types.Ge):
                yield "ge", float(str(bound.ge))
            elif isinstance(bound, annotated_types.Gt):
                yield "gt", float(str(bound.gt))


def test_the_job_reads_a_plan() -> None:
    planned = hyperparameters(load("demo", {"batch_size": "16"}), (32, 64))
    arguments = parse([word for name, value in planned.items() for word in (f"--{name}", str(value))])
    assert (arguments.batch_size, arguments.eval_batch_size, arguments.max_length) == (16, 16, 64)
