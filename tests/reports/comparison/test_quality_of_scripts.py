"""The measure of quality and its unit: declared, certain from the values, or not known."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from judging.design import Design
from reports.comparison.comparison import Verdict, judge
from tests.support.reports.verdicts import arm, job, judged, numbered
from tracking.recorded.arms import Arm
from tracking.recorded.recorded_job import EVALUATIONS, Job
from tracking.recorded.waves import measure_of, one_look, progress_of

NAN = float("nan")
FRACTION = {"unit": "fraction", "better": "higher"}


def script_job(scales: dict[str, dict[str, str]] | None = None, billed: float = 100.0, **scores: float) -> Job:
    """Return a job of a script with these scores, and with these declarations in its experiment."""
    made = job(billed, **{"eval_accuracy": NAN, **scores})
    tag = {"metric_scales": json.dumps(scales)} if scales else {}
    return replace(made, text={**made.text, "measured": "outside", **tag})


@pytest.mark.parametrize(
    ("scores", "label", "margin"),
    [
        ({"eval_accuracy": 0.9}, "accuracy", 0.03),
        ({"eval_accuracy": 90.0}, "accuracy (%)", 3.0),
        ({"eval_f1": 80.0}, "F1 (%)", 3.0),
        ({"eval_loss": 2.0}, "validation loss", 0.05 * 2.0),
    ],
)
def test_a_certain_unit_is_inferred(scores: dict[str, float], label: str, margin: float) -> None:
    measure = measure_of([script_job(**scores)])
    assert measure is not None
    assert (measure.label, measure.has_unit) == (label, True)
    assert measure.margin_at(2.0) == pytest.approx(margin)


@pytest.mark.parametrize("scores", [{"eval_f1": 0.8}, {"eval_exact_match": 1.0}, {"eval_accuracy": 900.0}])
def test_an_uncertain_unit_is_not_guessed(scores: dict[str, float]) -> None:
    measure = measure_of([script_job(**scores)])
    assert measure is not None
    assert not measure.has_unit


def test_our_own_jobs_have_known_units() -> None:
    own = measure_of([job(1.0, eval_accuracy=NAN, eval_f1=0.8)])
    assert own is not None
    assert (own.label, own.has_unit, own.margin) == ("F1 (%)", True, 3.0)
    # The user's own function decides before the task's metrics, but a script may log its name with another meaning.
    chosen = measure_of([job(1.0, eval_error=2.0)])
    assert chosen is not None
    assert (chosen.column, chosen.higher_is_better, chosen.margin_at(2.0)) == ("eval_error", False, 0.1)
    assert measure_of([script_job(eval_error=2.0)]) is None
    # A script's fractions cannot be compared with the accuracy of our own job in another unit.
    mixed = measure_of([job(1.0), script_job(eval_accuracy=90.0)])
    assert mixed is not None
    assert not mixed.has_unit


@pytest.mark.parametrize(
    ("unit", "better", "margin", "label"),
    [("fraction", "higher", 0.03, "f1"), ("percent", "higher", 3.0, "f1 (%)"), ("number", "lower", 0.1, "f1")],
)
def test_a_declared_unit_is_used(unit: str, better: str, margin: float, label: str) -> None:
    measure = measure_of([script_job({"f1": {"unit": unit, "better": better}}, f1=0.8, train_loss=1.0)])
    assert measure is not None
    assert (measure.column, measure.label, measure.has_unit) == ("f1", label, True)
    assert measure.higher_is_better == (better == "higher")
    assert measure.margin_at(2.0) == pytest.approx(margin)


def test_declarations_choose_the_measure() -> None:
    scales = {"eval_accuracy": {"unit": "fraction"}, "bleu": {"unit": "percent", "better": "higher"}}
    first = measure_of([script_job(scales, eval_accuracy=0.9, bleu=30.0)])
    only = measure_of([script_job(scales, bleu=30.0)])
    assert (first and first.column, only and only.column) == ("eval_accuracy", "bleu")  # accuracy has a known direction
    # A direction without a unit is enough only for losses.
    higher = measure_of([script_job({"reward": {"better": "higher"}}, reward=7.0)])
    lower = measure_of([script_job({"wer": {"better": "lower"}}, wer=7.0)])
    assert (higher and higher.has_unit, lower and lower.has_unit) == (False, True)
    # Contradicting declarations do not count.
    assert (
        measure_of([script_job({"f1": {**FRACTION, "unit": unit}}, f1=0.8) for unit in ("fraction", "percent")]) is None
    )


def test_the_training_loss_does_not_stand_in_for_undeclared_scores() -> None:
    """The loss of sentence-transformers grows with the batch size. Its evaluation logs scores of any name."""
    timing = {"eval_runtime": 2.0, "eval_samples_per_second": 50.0, "eval_samples": 100.0}
    assert (measure := measure_of([script_job(train_loss=1.0, **timing)]))
    assert measure.column == "train_loss"
    scores = {"eval_sts-dev_spearman_cosine": 0.8, "eval_sts-dev_pearson_cosine": 0.7}
    arms = [
        Arm(label, tuple(script_job(billed=billed + at, train_loss=loss, **timing, **scores) for at in range(3)))
        for label, billed, loss in (("a", 1000.0, 1.0), ("b", 800.0, 2.0))
    ]
    jobs = [job for arm in arms for job in arm.jobs]
    assert measure_of(jobs) is None
    found = judged(arms[1], arms[0], None)
    assert (found.outcome, found.quality) == ("inconclusive", None)
    assert found.reason == "but no quality is judged"
    declared = {"eval_sts-dev_spearman_cosine": FRACTION}
    assert (measure := measure_of([script_job(declared, train_loss=1.0, **scores)]))
    assert measure.column == "eval_sts-dev_spearman_cosine"


def verdict(scale: dict[str, str] | None, before: float, after: float, margin: float | None = None) -> Verdict:
    """Return the verdict on an arm that is a fifth cheaper, and whose F1 goes from `before` to `after`."""
    scales = None if scale is None else {"eval_f1": scale}

    def arm(label: str, billed: float, score: float) -> Arm:
        noise: list[dict[str, Any]] = [{"billed": billed * x, "eval_f1": score * x} for x in (1.0, 1.01, 0.99)]
        return Arm(label, tuple(replace(script_job(scales, **n), repeat=str(at)) for at, n in enumerate(noise)))

    arms = [arm("a", 100.0, before), arm("b", 80.0, after)]
    progress = progress_of(Design(margin=margin), ["a", "b"], arms)
    return judge(arms[1], arms[0], measure_of([*arms[0].jobs, *arms[1].jobs]), progress=progress)


def test_a_fall_of_a_fraction_is_never_called_cheaper() -> None:
    lost = verdict(FRACTION, 0.80, 0.20)
    assert (lost.outcome, lost.reason) == ("not cheaper", "but the F1 is worse")
    unknown = verdict(None, 0.80, 0.20)
    assert unknown.outcome == "inconclusive"
    assert unknown.reason == (
        "but the unit of eval_f1 is not known: add it to script.metrics, such as {eval_f1: {unit: fraction, better: "
        "higher}}, or set compare.quality_margin in that unit"
    )


@pytest.mark.parametrize("diverged", [{"diverged": "true"}, {"failure_class": "Diverged"}])
def test_a_loss_that_is_not_finite_loses_the_quality(diverged: dict[str, str]) -> None:
    """The job's accuracy is finite. One of our own jobs has failed; a script has succeeded."""
    status = "FAILED" if "failure_class" in diverged else "FINISHED"
    first, *others = arm(80.0, 81.0, 82.0, 79.0).jobs
    bad = numbered("bad", replace(first, status=status, text={**first.text, **diverged}), *others)
    dear, cheap = (numbered("good", *arm(cost, 1.01 * cost, 1.02 * cost, 0.99 * cost).jobs) for cost in (100.0, 10.0))
    for sides, outcome, reason in (
        ((bad, dear), "not cheaper", "and 1 of 4 jobs ended without a finite loss or accuracy"),
        ((cheap, bad), "inconclusive", "but 1 of 8 jobs have no finite loss or accuracy"),
    ):
        progress = one_look(Design(looks=(4,)), (sides[1], sides[0]))
        found = judge(*sides, EVALUATIONS["eval_accuracy"], progress=progress)
        assert (found.outcome, found.reason) == (outcome, reason)


def test_one_large_class_makes_macro_f1_the_measure() -> None:
    def column(*shares: float, **text: str) -> str:
        scores = {"eval_accuracy": 0.98, "eval_f1_macro": 0.6}
        jobs = [job(1.0, **scores, eval_accuracy_commonest=share) for share in shares]
        measure = measure_of(numbered("a", *jobs, **text).jobs)
        assert measure is not None
        return measure.column

    assert (column(0.8), column(0.81), column(0.97, 0.97)) == ("eval_accuracy", "eval_f1_macro", "eval_f1_macro")
    assert column(0.97, hp_target_metric="eval_accuracy") == "eval_accuracy"
    # Jobs of an earlier version do not record the share. The group keeps the measure that it began with.
    assert column(0.97, NAN) == "eval_accuracy"


def test_equal_quality_in_a_declared_unit_is_cheaper() -> None:
    assert verdict(FRACTION, 0.80, 0.80).outcome == "cheaper"
    assert verdict(None, 80.0, 80.0).outcome == "cheaper"
    assert verdict(None, 0.80, 0.80, margin=0.03).outcome == "cheaper"
    assert verdict(None, 0.80, 0.80).outcome == "inconclusive"
    # The same drop of two is a loss of a fraction, and within the margin in percent.
    assert verdict({"unit": "percent"}, 80.0, 79.5).outcome == "cheaper"
