"""Break-even points worked out by hand."""

from __future__ import annotations

import math

import pytest

from judging.break_even import BreakEven, break_even
from judging.intervals import Interval

FASTER = Interval(2.0, 1.5, 2.5, 3, 3)


def test_break_even_by_hand() -> None:
    # 30 s dearer; 1/100 - 1/200 = 0.005 s earned per sample: 6,000 samples. 40 + 6000/200 = 10 + 6000/100 = 70 s.
    result = break_even((40.0, 10.0), (200.0, 100.0), FASTER)
    assert result.kind == "at"
    assert result.samples == pytest.approx(6000)
    assert result.minutes == pytest.approx(70 / 60)


@pytest.mark.parametrize(
    ("setup", "rates", "speed_up", "kind"),
    [
        ((10.0, 10.0), (200.0, 100.0), FASTER, "already ahead"),
        ((5.0, 10.0), (200.0, 100.0), FASTER, "already ahead"),
        ((40.0, 10.0), (90.0, 100.0), Interval(0.9, 0.85, 0.95, 3, 3), "never"),
        ((5.0, 10.0), (90.0, 100.0), Interval(0.9, 0.85, 0.95, 3, 3), "not determined"),
        ((40.0, 10.0), (105.0, 100.0), Interval(1.05, 0.99, 1.1, 3, 3), "not determined"),
        ((40.0, 10.0), (200.0, 100.0), None, "not determined"),
        ((math.nan, 10.0), (200.0, 100.0), FASTER, "not determined"),
    ],
)
def test_each_kind_of_break_even_is_recognised(
    setup: tuple[float, float], rates: tuple[float, float], speed_up: Interval | None, kind: str
) -> None:
    assert break_even(setup, rates, speed_up) == BreakEven(kind)  # type: ignore[arg-type]
