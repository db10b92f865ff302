"""Regular expressions of users: matches, and the time limit of a search."""

from __future__ import annotations

import math

import pytest

from training.contract.metric_expressions import MetricExpressions

SLOW = r"^(?:x|xx)+(7?)$"
"""Takes exponential time on a line of many x that ends otherwise."""
LINE = "x" * 60 + "!"


def test_every_match_is_found_in_order() -> None:
    expressions = MetricExpressions({"loss": r"loss=([\d.]+)", "step": r"step (\d+)"})
    assert list(expressions.matches("step 3: loss=1.5, loss=1.25")) == [
        ("loss", 1.5),
        ("loss", 1.25),
        ("step", 3),
    ]
    assert list(expressions.matches("nothing")) == []
    assert expressions.stopped == ()


@pytest.mark.parametrize(
    ("expression", "line", "value"),
    [
        ("loss ([0-9.]+)", "loss 7.2E-5", 7.2e-5),
        ("loss ([0-9.]+)", "loss 1,024.5 in all", 1024.5),
        ("loss ([0-9.]+).* step", "loss 1e+3 step 4", 1000),
        (r"loss([\s\d]+)", "loss  0.5", 0.5),
        (r"step (\d+)", "step 12,345,678/20,000,000", 12345678),
        ("loss ([0-9.]+)", "loss 0.5epochs", 0.5),
        (r"\((\d+)", "(3,4)", 3),
        (r"\((\d+)", "(0,100)", 0),
        ("loss (.*)", "loss 1,024.5", 1024.5),
        ("loss ([0-9.]+)", "step 3: loss -Infinity", -math.inf),
        (r"step (\d+): loss", "step 3: loss nan", 3),
    ],
)
def test_a_number_is_not_cut_and_may_be_infinite(expression: str, line: str, value: float) -> None:
    assert list(MetricExpressions({"x": expression}).matches(line)) == [("x", value)]


def test_a_loss_that_is_no_number_is_not_unseen() -> None:
    [(_, value)] = MetricExpressions({"loss": "loss ([0-9.]+)"}).matches("loss nan")
    assert math.isnan(value)
    assert list(MetricExpressions({"loss": "loss ([0-9.]+)"}).matches("loss info, loss nan_count")) == []


@pytest.mark.parametrize("line", ["loss x", "loss 1.2.3", "loss -", "loss "])
def test_what_is_no_number_is_left_out(line: str) -> None:
    assert list(MetricExpressions({"x": "loss (.*)"}).matches(line)) == []


def test_a_slow_expression_is_given_up_and_the_others_go_on() -> None:
    expressions = MetricExpressions({"slow": SLOW, "loss": r"loss=([\d.]+)"})
    # Without the limit, the first line would take years.
    for number in range(50):
        assert list(expressions.matches(f"{LINE} loss={number}")) == [("loss", number)]
    assert expressions.stopped == ("slow",)
