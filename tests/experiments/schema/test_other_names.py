"""Suggestions for names of other tools."""

from __future__ import annotations

import pytest

from experiments.schema.overrides import FORMER_FIELDS, OTHER_NAMES, known_fields, unknown_field


def test_other_names_stand_for_fields_and_are_none_themselves() -> None:
    assert set(OTHER_NAMES.values()) <= known_fields().keys()
    assert not OTHER_NAMES.keys() & known_fields().keys()


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("learning_rate", "base_learning_rate"),
        ("learnin_rate", "base_learning_rate"),
        ("per_device_train_batch_size", "batch_size"),
        ("fp16", "precision"),
        ("max_learning_rat", "max_learning_rate"),
        ("train_rows", "data.train_rows"),
        ("machine.use_spot_instances", "machine.spot"),
    ],
)
def test_the_field_that_was_meant_is_suggested(name: str, field: str) -> None:
    assert unknown_field(name, "line 1") == f"unknown field '{name}' (line 1). Did you mean '{field}'?"


def test_nothing_is_suggested_for_a_name_that_resembles_none() -> None:
    assert unknown_field("zzz", "line 1") == "unknown field 'zzz' (line 1)."


@pytest.mark.parametrize("name", sorted(FORMER_FIELDS))
def test_a_field_of_an_earlier_version_is_refused_with_what_holds_instead(name: str) -> None:
    assert name not in known_fields()
    message = f"field '{name}' no longer exists (line 1): remove it. {FORMER_FIELDS[name]}"
    assert unknown_field(name, "line 1") == message
