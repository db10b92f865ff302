"""The reference of all fields in docs/experiments.md, and the defaults that planning passes on."""

from __future__ import annotations

import pytest

from experiments.schema.fields import ExperimentFields
from experiments.schema.machine_fields import Aws, Machine
from experiments.schema.overrides import fields_of
from experiments.schema.reference import PAGE, markdown
from training.contract.job_spec import JobSpec
from training.staging.sources.request import StagingRequest


def test_the_committed_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), "run: python -m experiments.schema.reference"


def test_every_field_has_a_description() -> None:
    assert [name for name, field in fields_of(ExperimentFields) if not field.description] == []


@pytest.mark.parametrize(
    "line",
    [
        "- **`batch_size`** (integer, 1 to 1,048,576; default: 32): Training batch size per device, in samples.",
        "- **`precision`** (auto | fp32 | bf16 | fp16 | fp8):",
        "- **`bucket_lengths`** (list of integer",
        "- **`machine`** ([section](#machine)):",
        "- **`target.metric`** (quality metric; required):",
    ],
)
def test_types_and_defaults_are_written_as_in_yaml(line: str) -> None:
    assert line in markdown()


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


def test_defaults_of_models_that_receive_resolved_values_equal_those_of_the_schema() -> None:
    for model, name in SHARED:
        default = model.model_fields[name].get_default(call_default_factory=True)
        assert default == SCHEMA[name].get_default(call_default_factory=True)
    names = {name for _, name in SHARED}
    assert {"instance_count", "volume_gib", "max_run_seconds", "doc_stride", "n_best_answers", "compiler"} <= names
