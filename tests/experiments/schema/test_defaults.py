"""Defaults of models that receive resolved values equal those of the schema."""

from __future__ import annotations

import pytest

from experiments.schema.fields import ExperimentFields
from experiments.schema.machine_fields import Aws, Machine
from training.contract.job_spec import JobSpec
from training.staging.sources.request import StagingRequest

SCHEMA = {**Aws.model_fields, **Machine.model_fields, **ExperimentFields.model_fields}

RESOLVED = {
    # None in the schema has a meaning that planning resolves before it passes the value on.
    "image",
    "packing",
    "region",
    "weights",
}
SHARED = [
    (model, name)
    for model in (JobSpec, StagingRequest)
    for name, field in model.model_fields.items()
    if name in SCHEMA and name not in RESOLVED and not field.is_required()
]


@pytest.mark.parametrize(("model", "name"), SHARED)
def test_each_default_equals_the_schemas(model: type[JobSpec] | type[StagingRequest], name: str) -> None:
    default = model.model_fields[name].get_default(call_default_factory=True)
    assert default == SCHEMA[name].get_default(call_default_factory=True)


def test_the_comparison_covers_the_defaults_that_planning_passes_on() -> None:
    names = {name for _, name in SHARED}
    assert {"instance_count", "volume_gib", "max_run_seconds", "doc_stride", "n_best_answers", "compiler"} <= names
