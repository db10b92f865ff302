"""Settings that are repeated after a sweep, worked out by hand."""

from __future__ import annotations

from sweeps.space.confirmation import settings
from sweeps.space.grid import Point

BASE = Point(8)
WON = Point(64, 2.0)
OTHER = Point(32)


def test_the_winner_and_the_baseline_span_a_factorial() -> None:
    best = {"none": (OTHER, 120.0), "inductor": (WON, 100.0)}
    assert settings(best, ("none", BASE)) == [
        ("none", BASE),
        ("inductor", WON),
        ("inductor", BASE),
        ("none", WON),
        ("none", OTHER),
    ]


def test_a_winner_with_the_baselines_compiler_is_compared_with_the_best_other_one() -> None:
    best = {"none": (WON, 90.0), "inductor": (WON, 100.0), "trcomp": (OTHER, 95.0)}
    assert settings(best, ("none", BASE)) == [
        ("none", BASE),
        ("none", WON),
        ("trcomp", BASE),
        ("trcomp", WON),
        ("trcomp", OTHER),
        ("inductor", WON),
    ]


def test_throughput_is_maximised() -> None:
    best = {"none": (OTHER, 900.0), "inductor": (WON, 100.0)}
    assert settings(best, ("inductor", BASE), maximise=True)[1] == ("none", OTHER)


def test_a_baseline_that_wins_with_one_compiler_is_repeated_only() -> None:
    assert settings({"none": (BASE, 10.0)}, ("none", BASE)) == [("none", BASE)]
    assert settings({}, ("none", BASE)) == []
