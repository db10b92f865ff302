"""Test that a group's looks are read as they were written, and that a damaged tag is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judging.design import Design
from tracking.groups.plan_file import DESIGN, read_design, write_design
from training.contract.errors import InputError


def test_a_design_is_read_as_it_was_written() -> None:
    design = Design(looks=(3, 6), least_gain=0.1, margin=0.02, trainings=4, when_disturbed="repeat")
    assert read_design({DESIGN: write_design(design)}) == design
    assert read_design({"platform.group": "g"}) is None


def changed(**fields: Any) -> str:
    return json.dumps({**json.loads(write_design(Design())), **fields})


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{", "it must be a JSON object as `trainfare compare` writes it"),
        (changed(rules=5), "its rules have version 5, and this version of trainfare has 4"),
    ],
)
def test_a_damaged_tag_is_refused(text: str, rule: str) -> None:
    with pytest.raises(InputError) as refused:
        read_design({DESIGN: text, "platform.group": "demo-1"})
    message = str(refused.value)
    assert message.startswith(f"tag platform.design of group 'demo-1' is '{text}'")
    assert rule in message
    assert "Restore the tag in MLflow" in message
