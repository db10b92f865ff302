"""Regular expressions of users: matches, and the time limit of a search."""

from __future__ import annotations

from training.contract.metric_expressions import MetricExpressions

SLOW = r"^(?:x|xx)+(y?)$"
"""Takes exponential time on a line of many x that ends otherwise."""
LINE = "x" * 60 + "!"


def test_every_match_is_found_in_order() -> None:
    expressions = MetricExpressions({"loss": r"loss=([\d.]+)", "step": r"step (\d+)"})
    assert list(expressions.matches("step 3: loss=1.5, loss=1.25")) == [
        ("loss", "1.5"),
        ("loss", "1.25"),
        ("step", "3"),
    ]
    assert list(expressions.matches("nothing")) == []
    assert expressions.stopped == ()


def test_a_slow_expression_is_given_up_and_the_others_go_on() -> None:
    expressions = MetricExpressions({"slow": SLOW, "loss": r"loss=([\d.]+)"})
    # Without the limit, the first line would take years.
    for number in range(50):
        assert list(expressions.matches(f"{LINE} loss={number}")) == [("loss", str(number))]
    assert expressions.stopped == ("slow",)


def test_a_quick_line_does_not_count_against_an_expression() -> None:
    expressions = MetricExpressions({"slow": SLOW})
    assert list(expressions.matches("xxxy")) == [("slow", "y")]
    assert list(expressions.matches(LINE)) == []
    assert expressions.stopped == ()
    assert list(expressions.matches("xxy")) == [("slow", "y")]
