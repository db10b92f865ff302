"""The reference of all fields, as the command line and docs/experiments.md show it."""

from __future__ import annotations

from experiments.schema.overrides import known_fields
from experiments.schema.reference import PAGE, SECTION, field_reference, markdown

FIELDS = {field.name: field for field in field_reference()}


def test_the_committed_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), "run: python -m experiments.schema.reference"


def test_every_field_is_listed_with_a_description() -> None:
    assert list(FIELDS) == list(known_fields())
    assert [name for name, field in FIELDS.items() if not field.description] == []


def test_a_number_has_its_range_and_default() -> None:
    batch_size, rate = FIELDS["batch_size"], FIELDS["base_learning_rate"]
    assert (batch_size.type, batch_size.default) == ("integer, 1 to 1,048,576", "32")
    assert batch_size.description == "Training batch size per device, in samples."
    assert (rate.type, rate.default) == ("number, above 0", "3e-05")
    assert FIELDS["learning_rate_multiplier"].type == "number, above 0, at most 1,024"
    assert FIELDS["adam_beta1"].type == "number, at least 0, below 1"


def test_types_and_defaults_are_written_as_in_yaml() -> None:
    assert (FIELDS["precision"].type, FIELDS["precision"].default) == ("auto | fp32 | bf16 | fp16 | fp8", "auto")
    assert (FIELDS["drop_last"].type, FIELDS["drop_last"].default) == ("true or false", "false")
    assert (FIELDS["max_steps"].type, FIELDS["max_steps"].default) == ("integer, 1 to 1,000,000,000", "not set")
    assert FIELDS["compare.arms"].default == "[{compiler: none}, {compiler: inductor}]"
    assert FIELDS["machine.mpi_options"].default == "empty"
    assert FIELDS["bucket_lengths"].type == "list of integer"


def test_a_section_comes_before_its_fields() -> None:
    names = list(FIELDS)
    assert FIELDS["machine"].type == SECTION
    assert names.index("machine") + 1 == names.index("machine.instance_type")
    assert (FIELDS["target"].default, FIELDS["target.metric"].default) == ("not set", "required")
    assert FIELDS["compare"].default == "the defaults of its fields"
