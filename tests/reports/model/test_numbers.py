"""Test numbers as text against hand-written examples."""

import pytest

from judging.intervals import Interval
from reports.model.numbers import change, change_interval, factor, figure, rate, short_labels, signed_percent


def test_changes_as_text() -> None:
    assert change(0.8) == "20 % fewer"
    assert change(1.052) == "5.2 % more"
    assert change_interval(Interval(0.8, 0.76, 0.88, 3, 3)) == "12 % to 24 % fewer"
    assert change_interval(Interval(1.05, 1.03, 1.09, 3, 3)) == "3.0 % to 9.0 % more"
    assert change_interval(Interval(1.0, 0.97, 1.05, 3, 3)) == "3.0 % fewer to 5.0 % more"
    assert change_interval(Interval(1.0, 0.4, 2.5, 2, 2)) == "too few repeats"
    assert signed_percent(0.8) == "−20 %"
    assert signed_percent(0.9999999) == "+0.0 %"


def test_figures_and_rates_as_text() -> None:
    values = [0.01234, 1.0, 4.567, 78.94, 12_345.6, 0.0, float("nan"), float("inf"), None]
    assert [figure(value) for value in values] == [
        "0.0123",
        "1.00",
        "4.57",
        "78.9",
        "12,346",
        "0.00",
        "–",
        "∞",
        "–",
    ]
    assert [figure(value) for value in (99.97, 9.999, 0.9999, -99.97)] == ["100", "10.0", "1.00", "-100"]
    assert [rate(value) for value in (5e-5, 2e-4, 1.25e-5, 0.001, 0.05)] == [
        "5e-5",
        "2e-4",
        "1.25e-5",
        "1e-3",
        "0.05",
    ]


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0.6, "0.60"), (1.2, "1.20"), (0.0951, "0.10"), (0.0949, "0.0949"), (9.994, "9.99"), (12.34, "12.3")],
)
def test_factors_have_two_decimals(ratio: float, text: str) -> None:
    assert factor(ratio) == text


def test_short_labels_stay_different() -> None:
    label = "none, batch 32, precision fp32, padding buckets, attention {}".format
    eager, sdpa, middle = label("eager"), label("sdpa"), label("sdpa").replace("32", "64", 1)
    assert list(short_labels([eager, sdpa, "full"], 28).values()) == [
        "none, batch 3…ttention eager",
        "none, batch 3…attention sdpa",
        "full",
    ]
    assert list(short_labels([sdpa, middle], 18).values()) == ["none, batch 32, p…", "none, batch 64, p…"]
    same = ["x" * 50 + middle + "x" * 50 for middle in "ab"]
    assert list(short_labels(same, 18).values()) == ["1: xxxxxxxxxxxxxx…", "2: xxxxxxxxxxxxxx…"]
