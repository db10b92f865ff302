"""The quality gate: each reason to refuse a model, in a sentence with the check that allows it."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.lookup.evaluation import EVALUATIONS, is_worse
from models.registry.gate import GATE_CHECKS, ModelInUse, check, parse_allowed, refusal
from tests.support.models.group_models import trained
from training.contract.errors import InputError, NotGoodEnough

NOW = "b" * 32
TITLE = "version 3 of emotion (champion)"


def in_use(**fields: Any) -> ModelInUse:
    return ModelInUse(trained=trained(NOW, **fields), title=TITLE)


def test_the_first_model_passes() -> None:
    assert refusal(trained(), None) is None


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"status": "FAILED", "failure": "OutOfMemory"},
            "ended FAILED (OutOfMemory). To accept it anyway, use --allow failed.",
        ),
        ({"status": "KILLED"}, "ended KILLED. To accept it anyway, use --allow failed."),
        ({"status": "RUNNING"}, "has not ended. To accept it anyway, use --allow failed."),
        ({"metrics": {}}, "has no evaluation metric. To accept it anyway, use --allow unevaluated."),
        (
            {"status": "FAILED", "failure": "Killed", "metrics": {}},
            "ended FAILED (Killed) and has no evaluation metric. To accept it anyway, use --allow failed,unevaluated.",
        ),
    ],
)
def test_a_failed_or_unevaluated_run_is_refused(fields: dict[str, Any], sentence: str) -> None:
    reason = refusal(trained(**fields), None)
    assert reason == f"Job demo-1-none-0 (run {'a' * 32}) {sentence}"


@pytest.mark.parametrize(
    ("mine", "others", "fields"),
    [
        ({"eval_accuracy": 0.89}, {"eval_accuracy": 0.9}, "eval_accuracy 0.89 against 0.9"),
        ({"eval_loss": 0.41}, {"eval_loss": 0.4}, "eval_loss 0.41 against 0.4"),
        ({"eval_loss": 0.400002}, {"eval_loss": 0.4}, "eval_loss 0.400002 against 0.4"),
        ({"eval_loss": 400.0008}, {"eval_loss": 400.0}, "eval_loss 400.001 against 400"),
        ({"eval_f1": 80.5, "eval_exact_match": 71.0}, {"eval_f1": 80.6, "eval_exact_match": 70.0}, "eval_f1 80.5 ag"),
        ({"eval_accuracy": 0.8, "eval_loss": 0.1}, {"eval_loss": 0.05}, "eval_loss 0.1 against 0.05"),
        ({"eval_perplexity": 30.1}, {"eval_perplexity": 30.0}, "eval_perplexity 30.1 against 30"),
    ],
)
def test_a_worse_model_is_refused(mine: dict[str, float], others: dict[str, float], fields: str) -> None:
    reason = refusal(trained(metrics=mine), in_use(metrics=others))
    assert reason
    assert f"is worse: {fields}" in reason
    assert TITLE in reason
    assert "To accept it anyway, use --allow worse." in reason
    assert refusal(trained(metrics=mine), in_use(metrics=others), {"worse"}) is None
    assert refusal(trained(metrics=others), in_use(metrics=mine)) is None


def test_the_target_metric_decides() -> None:
    mine, others = {"eval_accuracy": 0.95, "eval_loss": 0.5}, {"eval_accuracy": 0.9, "eval_loss": 0.4}
    assert refusal(trained(metrics=mine), in_use(metrics=others)) is None
    reason = refusal(trained(metrics=mine, target_metric="eval_loss"), in_use(metrics=others))
    assert reason
    assert "eval_loss 0.5 against 0.4" in reason


@given(st.sampled_from(sorted(EVALUATIONS)), st.floats(1e-6, 1e6), st.floats(-3e-7, 3e-7))
def test_a_tie_is_not_worse(metric: str, value: float, noise: float) -> None:
    measure = EVALUATIONS[metric]
    assert not is_worse(value * (1 + noise), value, measure)
    assert is_worse(value * 1.001, value, measure) != is_worse(value / 1.001, value, measure)


def test_a_loss_of_zero_is_compared() -> None:
    """A loss of 0 has no relative noise."""
    assert is_worse(1e-9, 0.0, EVALUATIONS["eval_loss"])
    assert not is_worse(0.0, 0.0, EVALUATIONS["eval_loss"])


def test_models_evaluated_on_different_data_are_not_compared() -> None:
    candidate = trained(metrics={"eval_accuracy": 0.99}, data_key="other")
    reason = refusal(candidate, in_use())
    assert reason == (
        f"Job demo-1-none-0 (run {'a' * 32}) was evaluated on different data than {TITLE}, so eval_accuracy 0.99 "
        f"against 0.9 of {TITLE} cannot be compared. To accept it anyway, use --allow other-data."
    )
    assert refusal(candidate, in_use(), {"other-data"}) is None
    assert refusal(candidate, in_use(), {"worse"})


@pytest.mark.parametrize(
    ("mine", "others", "is_same"),
    [
        (("rows 1", "data 1"), ("rows 1", "data 2"), True),
        (("rows 1", "data 1"), ("rows 2", "data 1"), False),
        (("rows 1", "data 1"), (None, "data 1"), True),
        (("rows 1", "data 1"), (None, "data 2"), False),
        ((None, None), (None, None), False),
    ],
)
def test_evaluation_rows_count_and_training_rows_do_not(
    mine: tuple[str | None, str | None], others: tuple[str | None, str | None], is_same: bool
) -> None:
    reason = refusal(
        trained(evaluation_key=mine[0], data_key=mine[1]), in_use(evaluation_key=others[0], data_key=others[1])
    )
    assert (reason is None) == is_same


def test_a_model_that_cannot_be_compared_is_refused() -> None:
    reason = refusal(trained(metrics={"eval_loss": 0.1}), in_use(metrics={"eval_accuracy": 0.9}))
    assert reason
    assert (
        f"has eval_loss, and {TITLE} has eval_accuracy: they cannot be compared. To accept it anyway, use --allow worse"
        in reason
    )
    gone = ModelInUse(trained=None, title=TITLE)
    reason = refusal(trained(), gone)
    assert reason
    assert f"cannot be compared with {TITLE}, whose run is missing. To accept it anyway, use --allow worse" in reason
    assert refusal(trained(), gone, {"worse"}) is None


def test_allowing_unevaluated_alone_does_not_replace_a_model() -> None:
    candidate = trained(metrics={})
    for now in (in_use(), in_use(metrics={})):
        reason = refusal(candidate, now)
        assert reason == (
            f"Job demo-1-none-0 (run {'a' * 32}) has no evaluation metric and cannot be compared with {TITLE}. "
            "To accept it anyway, use --allow unevaluated,worse."
        )
        assert refusal(candidate, now, {"unevaluated"})
        assert refusal(candidate, now, {"unevaluated", "worse"}) is None
    assert refusal(candidate, ModelInUse(trained=None, title=TITLE), {"unevaluated"})


def test_the_model_in_use_passes_again() -> None:
    assert refusal(trained(NOW, data_key=None), in_use(data_key=None)) is None
    assert refusal(trained(NOW, metrics={}), in_use(metrics={}), {"unevaluated"}) is None


def test_the_checks_that_a_refusal_names_are_enough() -> None:
    """Whatever is already allowed, the refusal names all checks that are still needed."""
    candidate = trained(status="FAILED", metrics={"eval_accuracy": 0.1})
    for n in range(len(GATE_CHECKS) + 1):
        for allowed in combinations(GATE_CHECKS, n):
            reason = refusal(candidate, in_use(), set(allowed))
            named = set(reason.removesuffix(".").split("use --allow ")[1].split(",")) if reason else set()
            assert (named == set()) == ({"failed", "worse"} <= set(allowed))
            assert named in (set(), {"failed", "worse"})
    assert refusal(candidate, in_use(), {"failed", "worse"}) is None


def test_checks_are_parsed_and_unknown_ones_refused() -> None:
    assert parse_allowed(" worse , failed,") == {"worse", "failed"}
    assert parse_allowed("") == frozenset()
    with pytest.raises(
        InputError, match=r"allow: 'wors' is not a check\. The checks are failed, .* Did you mean 'worse'\?"
    ):
        parse_allowed("failed,wors")


def test_a_refusal_raises_not_good_enough() -> None:
    check(trained(), in_use(), set())
    with pytest.raises(NotGoodEnough, match="use --allow failed") as caught:
        check(trained(status="FAILED"), in_use(), set())
    assert caught.value.exit_code == 1
