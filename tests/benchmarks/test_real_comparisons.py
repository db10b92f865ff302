"""Test the plan, the table and the figures of real comparisons, without running them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from benchmarks.bench_real import Comparison, append, planned, read, rows

SAME = Comparison(
    kind="same", number=0, beside_neighbour=False, outcome="not cheaper", reason="no gain worth having",
    ratio=1.0, low=0.9, high=1.1, jobs=6, disturbed=0,
)  # fmt: skip
GAIN = replace(SAME, kind="gain", outcome="cheaper", ratio=0.85, low=0.8, high=0.9)


def test_half_of_each_kind_runs_beside_a_neighbour() -> None:
    assert Counter((kind, number % 2) for kind, number in planned()) == {
        ("same", 0): 10, ("same", 1): 10, ("gain", 0): 5, ("gain", 1): 5,
    }  # fmt: skip
    assert len(set(planned())) == 30


def test_comparisons_are_added_one_by_one(tmp_path: Path) -> None:
    table = tmp_path / "real.csv"
    assert read(table) == []
    append(SAME, table)
    append(GAIN, table)
    assert read(table) == [SAME, GAIN]


def test_an_interval_without_one_is_a_false_verdict_on_equal_arms() -> None:
    dearer, cheaper = replace(SAME, low=1.01, high=1.2, jobs=10), replace(SAME, low=0.8, high=0.99, jobs=14)
    figures = {row.name: (row.value, row.n) for row in rows([SAME, SAME, dearer, cheaper])}
    assert figures["false verdicts on the demo against itself, alone"] == (2, 4)
    # (6 + 6 + 10 + 14) / 4
    assert figures["jobs until the demo against itself stops, alone"] == (9, 4)


def test_gains_and_places_are_counted_apart() -> None:
    missed = replace(GAIN, outcome="inconclusive", beside_neighbour=True, jobs=18)
    marked = replace(SAME, beside_neighbour=True, disturbed=3)
    figures = {row.name: row.value for row in rows([GAIN, GAIN, missed, marked])}
    assert figures["a gain of 15 % found, alone"] == 2
    assert figures["a gain of 15 % found, beside other load"] == 0
    assert figures["jobs until a gain of 15 % is found, beside other load"] == 18
    # 3 of 6 jobs.
    assert figures["jobs of the demo marked as disturbed, beside other load"] == 50
