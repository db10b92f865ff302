"""Decisions as JSON: merged, read again, and refused when damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuning.decision import Decision, from_json, message, to_json
from tuning.decision_files import DecisionFiles

TRIED = Decision(
    {"precision": "bf16", "attention": "eager"},
    {"bf16_eager": 98.04, "fp32_eager": 61.0},
    seconds=2.14,
    rows=16,
    tokens=32,
    layers=6,
    source="demo-a0r0",
)


def test_a_decision_is_read_as_it_was_written(tmp_path: Path) -> None:
    files = DecisionFiles(tmp_path / "decisions")
    with files.locked():
        assert files.read({"group": "a"}) is None
        files.write({"group": "a"}, TRIED)
        assert files.read({"group": "a"}) == TRIED
        assert files.read({"group": "b"}) is None
    [path] = (tmp_path / "decisions").glob("*.json")
    assert json.loads(path.read_text())["for"] == {"group": "a"}


@pytest.mark.parametrize(
    "changed",
    [
        {"values": {"precision": "fp16"}},
        {"values": {"threads": 0}},
        {"values": {"threads": [2]}},
        {"values": {"batch_size": 8}},
        {"values": None},
        {"samples_per_second": {"bf16_eager": "fast"}},
        {"samples_per_second": {"bf16_eager": -1.0}},
        {"unknown": 1},
    ],
)
def test_a_damaged_decision_does_not_exist(changed: dict[str, Any]) -> None:
    text = to_json(TRIED, {})
    assert from_json(text) == TRIED
    assert from_json(json.dumps({**json.loads(text), **changed})) is None
    assert from_json(text[:-3]) is None
    assert from_json("[]") is None


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    files = DecisionFiles(tmp_path)
    files.write({"group": "a"}, TRIED)
    [path] = tmp_path.glob("*.json")
    path.write_bytes(b"\xff\x00")
    assert files.read({"group": "a"}) is None
    files.write({"group": "a"}, TRIED)
    assert files.read({"group": "a"}) == TRIED


def test_an_earlier_decision_is_completed_but_not_changed() -> None:
    earlier = Decision({"precision": "fp32"}, {"fp32": 50.0}, rows=8, source="first")
    merged = earlier.merged(TRIED)
    assert merged.values == {"precision": "fp32", "attention": "eager"}
    assert merged.samples_per_second == {"fp32": 50.0, "bf16_eager": 98.04, "fp32_eager": 61.0}
    assert (merged.rows, merged.source) == (8, "first")
    assert Decision().merged(TRIED) == TRIED
    assert TRIED.only(["attention", "dropout"]).values == {"attention": "eager"}


def test_metrics_and_message_have_the_measured_numbers() -> None:
    assert TRIED.metrics() == {
        "trial/bf16_eager_samples_per_second": 98.04,
        "trial/fp32_eager_samples_per_second": 61.0,
        "trial/rows": 16,
        "trial/tokens": 32,
        "trial/layers": 6,
    }
    assert message(TRIED) == (
        "auto chose precision bf16 and attention eager in a trial of 2.1 s by demo-a0r0 "
        "(the rates are the metrics trial/*)"
    )
    assert Decision({"threads": 2}).metrics() == {}
    assert message(Decision({"threads": 2}, remark="no time")) == "auto chose threads 2; no time"
    assert message(Decision()) == ""
