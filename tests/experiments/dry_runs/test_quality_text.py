"""Measure of quality in a plan: that by which the report judges."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.dry_runs.plan_jobs import FROM_LOG, quality_text
from experiments.planning.load import load

SCRIPT = """
script: {source: here, entry_point: train.py, metrics: METRICS}
"""


@pytest.mark.parametrize(
    ("task", "margin", "text"),
    [
        ("demo", None, "accuracy; a cheaper arm may be worse by at most 0.03"),
        ("demo", 0.01, "accuracy; a cheaper arm may be worse by at most 0.01 (compare.quality_margin)"),
        ("squad-minilm", None, "F1 (%); a cheaper arm may be worse by at most 3"),
        ("sst2-gpt2", None, "validation loss; a cheaper arm may be worse by at most 5 % of the baseline's value"),
    ],
)
def test_a_task_has_its_measure(task: str, margin: float | None, text: str) -> None:
    assert quality_text(load(task, {}), margin) == text


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ("{}", FROM_LOG),
        (
            "{f1: {pattern: 'f1 ([0-9.]+)', unit: percent, better: higher}}",
            "f1 (%); a cheaper arm may be worse by at most 3",
        ),
        (
            "{f1: {pattern: 'f1 ([0-9.]+)', better: higher}}",
            "f1, but its unit is not declared: add unit: fraction, percent or number to script.metrics",
        ),
        (
            "{lost: {pattern: 'l ([0-9.]+)', better: lower}}",
            "lost; a cheaper arm may be worse by at most 5 % of the baseline's value",
        ),
    ],
)
def test_a_script_has_the_measure_that_it_declares(metrics: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SCRIPT.replace("METRICS", metrics))
    assert quality_text(load(str(file), {}), None) == text
