"""The reference of all fields in docs/experiments.md."""

from __future__ import annotations

import pytest

from experiments.schema.fields import ExperimentFields
from experiments.schema.overrides import fields_of
from experiments.schema.reference import PAGE, markdown


def test_the_committed_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), "run: python -m experiments.schema.reference"


def test_every_field_has_a_description() -> None:
    assert [name for name, field in fields_of(ExperimentFields) if not field.description] == []


@pytest.mark.parametrize(
    "line",
    [
        "- **`batch_size`** (integer | auto, 1 to 1,048,576; default: 32): Training batch size per device, in samples.",
        "- **`precision`** (auto | fp32 | bf16 | fp16 | fp8):",
        "- **`bucket_lengths`** (list of integer",
        "- **`machine`** ([section](#machine)):",
        "- **`best_metric`** (quality metric):",
    ],
)
def test_types_and_defaults_are_written_as_in_yaml(line: str) -> None:
    assert line in markdown()
