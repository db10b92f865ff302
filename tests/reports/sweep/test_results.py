"""Test the results of a sweep's winner, for which a script may want the command to fail."""

from __future__ import annotations

from typing import Any

import pytest

from judging.design import Design
from reports.sweep.report import results_of_winner
from tests.support.reports.sweep_tables import FRONT, RATE, make_sweep, repeats, trial, waves

TRIALS = (trial("none", 8, 100.0), trial("inductor", 64, 60.0))
BASE = (100.0, 101.0, 99.0)


def results(*rows: dict[str, Any], document: dict[str, Any] | None = None) -> dict[str, tuple[str, ...]]:
    fields = {"document": document} if document else {}
    return dict(results_of_winner(make_sweep(*rows, **fields, design=Design(looks=(3,)))))


WINNER = "inductor 64 1.0"


def test_a_cheaper_winner_has_no_unwanted_result() -> None:
    assert results(*TRIALS, *waves("none", 8, *BASE), *waves("inductor", 64, 60.0, 61.0, 59.0)) == {}


def test_a_dearer_winner_is_named() -> None:
    assert results(*TRIALS, *waves("none", 8, *BASE), *waves("inductor", 64, 130.0, 131.0, 129.0)) == {
        "dearer": (WINNER,)
    }


def test_a_winner_that_misses_the_target_is_worse() -> None:
    missing = waves("inductor", 64, 60.0, 61.0, 59.0, target_reached=0.0)
    assert results(*TRIALS, *waves("none", 8, *BASE), *missing) == {"worse": (WINNER,)}


def test_the_controls_do_not_count_unless_they_fail() -> None:
    dearer = waves("inductor", 8, 130.0, 131.0, 129.0)
    winner = [*TRIALS, *waves("none", 8, *BASE), *waves("inductor", 64, 60.0, 61.0, 59.0)]
    assert results(*winner, *dearer) == {}
    dearer[0]["status"] = "FAILED"
    assert results(*winner, *dearer) == {"failed": ("inductor 8 1.0",)}


@pytest.mark.parametrize(
    ("rows", "document", "expected"),
    [
        ([trial("none", 8, 1.0, end="not reached")], None, {"inconclusive": ("the sweep",)}),
        (TRIALS, None, {"inconclusive": ("inductor at batch 64",)}),
        ([trial("none", 8, 50.0), trial("inductor", 64, 60.0)], None, {}),
        ([trial("none", 8, 9.0, eval_loss=0.4), trial("none", 16, 8.0)], FRONT, {"inconclusive": ("the sweep",)}),
    ],
    ids=["no winner", "not repeated", "the base wins", "a Pareto front"],
)
def test_sweeps_without_a_verdict(rows: Any, document: Any, expected: dict[str, tuple[str, ...]]) -> None:
    assert results(*rows, document=document) == expected


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ((150.0, 151.0, 149.0), {}),
        ((100.0, 101.0, 99.0), {"inconclusive": (WINNER,)}),
        ((50.0,) * 3, {"dearer": (WINNER,)}),
    ],
)
def test_a_winner_by_throughput_is_judged_by_its_rate(
    rates: tuple[float, ...], expected: dict[str, tuple[str, ...]]
) -> None:
    """Whatever it costs: all jobs bill 100 s."""

    def timed(compiler: str, size: float, values: tuple[float, ...]) -> list[dict[str, Any]]:
        return [
            repeats(compiler, size, 100.0, throughput_steady_samples_per_second=value, hp_target_stop=None)[0]
            for value in values
        ]

    trials = (
        trial("none", 8, 100.0, throughput_steady_samples_per_second=100.0),
        trial("inductor", 64, 100.0, throughput_steady_samples_per_second=200.0),
    )
    rows = [*trials, *timed("none", 8, (100.0, 101.0, 99.0)), *timed("inductor", 64, rates)]
    assert dict(results_of_winner(make_sweep(*rows, document=RATE))) == expected
