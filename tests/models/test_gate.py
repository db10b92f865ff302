"""The quality gate: each reason to refuse a model, in a sentence with the check that allows it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.quality import EVALUATIONS, is_worse
from models.registry import ModelInUse, check
from tests.support.models.place import trained
from training.contract.errors import NotGoodEnough

NOW = "b" * 32
TITLE = "version 3 of emotion (champion)"


def refusal(*arguments: Any) -> str | None:
    try:
        check(*arguments)
    except NotGoodEnough as error:
        return str(error)
    return None


def in_use(**fields: Any) -> ModelInUse:
    return ModelInUse(trained=trained(NOW, **fields), title=TITLE)


@pytest.mark.parametrize(
    ("fields", "now", "sentence"),
    [
        ({"status": "FAILED", "failure": "OutOfMemory"}, None, "ended FAILED (OutOfMemory). # failed."),
        ({"status": "RUNNING"}, None, "has not ended. # failed."),
        ({"status": "KILLED", "metrics": {}}, None, "ended KILLED and has no evaluation metric. # failed,unevaluated."),
        (
            {"metrics": {}},
            in_use(),
            f"has no evaluation metric and cannot be compared with {TITLE}. # unevaluated,worse.",
        ),
        (
            {"metrics": {"eval_loss": 0.1}},
            in_use(metrics={"eval_accuracy": 0.9}),
            f"has eval_loss, and {TITLE} has eval_accuracy: they cannot be compared. # worse.",
        ),
        ({}, ModelInUse(trained=None, title=TITLE), f"cannot be compared with {TITLE}, whose run is missing. # worse."),
        (
            {"metrics": {"eval_accuracy": 0.99}, "data_key": "other"},
            in_use(),
            f"was evaluated on different data than {TITLE}, so eval_accuracy 0.99 against 0.9 of {TITLE} cannot be "
            "compared. # other-data.",
        ),
    ],
)
def test_each_objection_is_named_with_the_checks_that_allow_it(
    fields: dict[str, Any], now: ModelInUse | None, sentence: str
) -> None:
    candidate = trained(**fields)
    reason = refusal(candidate, now)
    assert reason == f"Job demo-1-none-0 (run {'a' * 32}) {sentence.replace('#', 'To accept it anyway, use --allow')}"
    with pytest.raises(NotGoodEnough) as caught:
        check(candidate, now)
    assert (str(caught.value), caught.value.exit_code) == (reason, 1)
    named = reason.removesuffix(".").split("--allow ")[1].split(",")
    assert refusal(candidate, now, set(named)) is None
    for missing in named:  # Whatever is allowed, the refusal names all checks that are needed.
        assert str(refusal(candidate, now, set(named) - {missing})).endswith(f"--allow {','.join(named)}.")


def test_the_first_model_and_the_model_in_use_pass() -> None:
    assert refusal(trained(), None) is None
    assert refusal(trained(NOW, data_key=None), in_use(data_key=None)) is None


@pytest.mark.parametrize(
    ("mine", "others", "fields"),
    [
        ({"eval_accuracy": 0.89}, {"eval_accuracy": 0.9}, "eval_accuracy 0.89 against 0.9"),
        ({"eval_loss": 0.41}, {"eval_loss": 0.4}, "eval_loss 0.41 against 0.4"),
        ({"eval_loss": 0.400002}, {"eval_loss": 0.4}, "eval_loss 0.400002 against 0.4"),
        ({"eval_f1": 80.5, "eval_exact_match": 71.0}, {"eval_f1": 80.6, "eval_exact_match": 70.0}, "eval_f1 80.5 ag"),
        ({"eval_accuracy": 0.8, "eval_loss": 0.1}, {"eval_loss": 0.05}, "eval_loss 0.1 against 0.05"),
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
    assert is_worse(1e-9, 0.0, EVALUATIONS["eval_loss"])  # a loss of 0 has no relative noise


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


def test_scores_of_different_quality_functions_are_not_compared() -> None:
    fields = {"metrics": {"eval_score": 0.1, "eval_accuracy": 0.95}, "quality": "first"}
    now = {"metrics": {"eval_score": 5.0, "eval_accuracy": 0.9}}
    assert refusal(trained(**fields), in_use(**now, quality="second")) is None
    worse = refusal(trained(**fields), in_use(**now, quality="first"))
    assert worse is not None
    assert f"is worse: eval_score 0.1 against 5 of {TITLE}" in worse
