"""Which settings are repeated after a sweep, by hand."""

from __future__ import annotations

from sweeps.space.confirmation import settings
from sweeps.space.grid import Point

BASE = Point(8)
WON = Point(64, 2.0)
OTHER = Point(32)


def test_the_winner_and_the_baseline_span_the_two_by_two() -> None:
    best = {"none": (OTHER, 120.0), "inductor": (WON, 100.0)}
    assert settings(best, ("none", BASE)) == [
        ("none", BASE),
        ("inductor", WON),
        ("inductor", BASE),
        ("none", WON),
        ("none", OTHER),
    ]


def test_a_winner_of_the_baseline_s_compiler_is_set_against_the_best_other_one() -> None:
    best = {"none": (WON, 90.0), "inductor": (WON, 100.0), "trcomp": (OTHER, 95.0)}
    assert settings(best, ("none", BASE)) == [
        ("none", BASE),
        ("none", WON),
        ("trcomp", BASE),
        ("trcomp", WON),
        ("trcomp", OTHER),
        ("inductor", WON),
    ]


def test_throughput_is_made_large() -> None:
    best = {"none": (OTHER, 900.0), "inductor": (WON, 100.0)}
    assert settings(best, ("inductor", BASE), maximise=True)[1] == ("none", OTHER)


def test_one_compiler_that_the_baseline_won_needs_nothing_but_itself() -> None:
    assert settings({"none": (BASE, 10.0)}, ("none", BASE)) == [("none", BASE)]
    assert settings({}, ("none", BASE)) == []
