"""Findings of a check, from tables whose differences are worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from judging.equivalence import GRADIENT_TOLERANCE, LARGEST_RATIO, LOSS_TOLERANCE, Finding, answer_of, judge

EMBEDDINGS = "embeddings"


def rows(name: str, *steps: tuple[float, float], against: str = "plain", **more: Any) -> list[dict[str, Any]]:
    """Return a training's rows, from its losses and the norms of its embeddings' gradient. The whole norm is 2."""
    return [
        {
            "name": name, "value": "x", "against": against, "precision": "fp32", "step": step,
            "loss": loss, "gradient norm": 2.0, EMBEDDINGS: norm, "optimizer": "", **more,
        }
        for step, (loss, norm) in enumerate(steps, 1)
    ]  # fmt: skip


PLAIN = rows("plain", (0.5, 1.0), (0.4, 1.0))


def only(*tables: list[dict[str, Any]]) -> Finding:
    [finding] = judge([row for table in (PLAIN, *tables) for row in table])
    return finding


def test_rounding_is_no_difference_and_the_largest_is_named() -> None:
    # In units of their tolerances, the differences are 0.2 of the loss, then 0.1 of the gradient.
    found = only(rows("compiler", (0.5 * (1 + 0.2 * LOSS_TOLERANCE), 1.0), (0.4, 1.0 + 0.1 * GRADIENT_TOLERANCE)))
    assert (found.answer, found.step, found.quantity) == ("no difference", 1, "loss")
    assert found.size == pytest.approx(0.2 * LOSS_TOLERANCE)


def test_the_first_step_beyond_the_tolerance_is_named() -> None:
    found = only(rows("compiler", (0.5, 1.0), (0.4, 1.001)))
    assert (found.answer, found.step, found.quantity) == ("different", 2, EMBEDDINGS)
    assert found.size == pytest.approx(1e-3)


def test_small_gradients_are_measured_by_the_whole_norm() -> None:
    """A norm of 1e-6 is rounding beside a whole norm of 2: the smallest scale is a thousandth of that."""
    plain = rows("plain", (0.5, 1e-6))
    [found] = judge([*plain, *rows("compiler", (0.5, 1.04e-6))])
    assert found.answer == "no difference"
    assert found.size == pytest.approx(4e-8 / 2e-3)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_different(loss: float) -> None:
    found = only(rows("padding", (loss, 1.0), (0.4, 1.0)))
    assert (found.answer, found.step, found.quantity, found.size) == ("different", 1, "loss", math.inf)


def test_nothing_is_known_if_the_training_that_it_is_compared_with_diverged() -> None:
    broken = rows("attention", (math.nan, 1.0), (math.nan, 1.0))
    findings = judge([*PLAIN, *broken, *rows("compiler", (0.5, 1.0), (0.4, 1.0), against="attention")])
    assert [each.answer for each in findings] == ["different", "not checked"]


def test_options_of_the_optimizer_must_be_equal() -> None:
    table = rows("trainer", (0.5, 1.0), (0.4, 1.0))
    table[1]["optimizer"] = "lr of a is 2 instead of 1"
    found = only(table)
    assert (found.answer, found.step, found.quantity) == ("different", 2, "lr of a is 2 instead of 1")


def test_a_setting_that_is_not_possible_was_not_checked() -> None:
    found = only([{"name": "padding", "value": "none", "against": "trainer", "precision": "fp32", "step": 0,
                   "not_checked": "needs 16 bits"}])  # fmt: skip
    assert (found.answer, found.reason) == ("not checked", "needs 16 bits")


@pytest.mark.parametrize(("ratio", "answer"), [(1.2, "as stock torch"), (2 * LARGEST_RATIO, "different")])
def test_a_precision_is_judged_by_its_error_against_stock_torchs(ratio: float, answer: str) -> None:
    # Only the embeddings' gradient differs from single precision: by 0.01 with stock torch.
    stock = rows("plain bf16", (0.5, 1.01), (0.4, 1.01), precision="bf16")
    found = only(
        stock, rows("precision", *((loss, 1 + 0.01 * ratio) for loss in (0.5, 0.4)), against="plain bf16",
                    precision="bf16"),
    )  # fmt: skip
    assert found.answer == answer
    assert found.size == pytest.approx(ratio)


def test_the_answer_about_an_arm_is_the_worst_about_its_settings() -> None:
    def finding(answer: Any) -> Finding:
        return Finding(name="x", value="", answer=answer)

    same, stock, unknown, different = map(finding, ("no difference", "as stock torch", "not checked", "different"))
    assert answer_of([same, different, unknown]) == "different"
    assert answer_of([same, stock, unknown]) == "not checked"
    assert answer_of([same, stock]) == "as stock torch"
    assert answer_of([same]) == "no difference"
    assert answer_of([]) == "not checked"
