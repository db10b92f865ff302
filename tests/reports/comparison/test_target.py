"""Test arms whose jobs all end at the same target: samples may differ, and the cost until then is compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reports.comparison import messages
from reports.comparison.arms import Arm
from reports.comparison.comparison import Comparison, Contrast, judge
from reports.comparison.equal_work import Target, target_of, work_differences
from reports.formats.figures import summary
from reports.formats.html import html_page
from reports.render import render
from tests.support.reports.verdicts import ACCURACY, descriptions
from tests.support.reports.verdicts import arm as whole_arm

AT_045 = {"hp_target_stop": "True", "hp_target_metric": "eval_loss", "hp_target_value": "0.45"}


def arm(label: str, *billed: float, samples: float = 2000.0, reached: int | None = None, **text: str) -> Arm:
    """Return an arm whose jobs end at eval_loss 0.45, or at the target in `text`.

    `reached` of the jobs reach the target; None for all of them.
    """
    plain_arm = whole_arm(*billed, label=label, samples=samples)
    reaching = len(billed) if reached is None else reached
    return Arm(
        label,
        tuple(
            replace(
                job,
                text={**job.text, **AT_045, **text},
                numbers={**job.numbers, "target_reached": float(i < reaching)},
            )
            for i, job in enumerate(plain_arm.jobs)
        ),
    )


BASELINE = arm("none", 100.5, 101.5, 99.5)


def test_fewer_seconds_to_the_target_are_cheaper_regardless_of_samples() -> None:
    """80.5 s against 100.5 s is 20 % fewer, although the arm saw twice the samples."""
    quick = arm("inductor", 80.5, 81.5, 79.5, samples=4000.0)
    verdict = judge(quick, BASELINE, ACCURACY)
    assert (verdict.outcome, verdict.target, verdict.quality) == ("cheaper", Target("eval_loss", "0.45"), None)
    contrast = Contrast(quick, verdict, None, {})
    comparison = Comparison("g", (BASELINE, quick), (contrast,), ACCURACY)
    answer = "20 % fewer billable seconds to eval_loss 0.45 than “none”"
    assert messages.headline(comparison) == f"“inductor” is cheaper: {answer}."
    assert messages.verdict_sentence(contrast, BASELINE).startswith(f"{answer} (95 % interval: ")


def test_reaching_the_target_keeps_the_quality() -> None:
    worse = arm("inductor", 80.5, 81.5, 79.5)
    worse = Arm("inductor", tuple(replace(j, numbers={**j.numbers, "eval_accuracy": 0.1}) for j in worse.jobs))
    assert judge(worse, BASELINE, ACCURACY).outcome == "cheaper"


@pytest.mark.parametrize("reached", [0, 3])
def test_a_baseline_that_misses_the_target_is_inconclusive(reached: int) -> None:
    baseline = arm("none", 100.5, 101.5, 99.5, reached=2)
    verdict = judge(arm("inductor", 50.5, 51.5, 49.5, reached=reached), baseline, ACCURACY)
    assert (verdict.outcome, verdict.reason) == ("inconclusive", "1 of 3 jobs of “none” did not reach eval_loss 0.45")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ({"hp_target_value": "0.5"}, "differs (eval_loss 0.45, eval_loss 0.5)"),
        ({"hp_target_metric": "eval_accuracy"}, "differs (eval_accuracy 0.45, eval_loss 0.45)"),
        ({"hp_target_stop": "False"}, "differs (eval_loss 0.45, none)"),
    ],
)
def test_different_targets_are_different_work(text: dict[str, str], reason: str) -> None:
    assert descriptions(work_differences(arm("inductor", 1.0, **text), BASELINE)) == [
        f"the target at which the training ends {reason}"
    ]


def test_a_target_that_does_not_end_the_job_is_ignored() -> None:
    timed = [arm(label, 80.5, samples=n, hp_target_stop="False") for label, n in (("a", 1000.0), ("b", 2000.0))]
    assert target_of(*timed) is None
    assert descriptions(work_differences(*timed)) == ["the samples seen differ (1,000 to 2,000)"]


def test_data_and_device_must_still_agree() -> None:
    assert descriptions(work_differences(arm("inductor", 1.0, device="gpu"), BASELINE)) == [
        "the device differs (cpu, gpu)"
    ]


def test_the_page_explains_targets(tracked: Any) -> None:
    ends = {"hp.target_stop": True, "hp.target_metric": "eval_loss", "hp.target_value": 0.45}
    for repeat in range(2):
        for label, billed, samples in (("none", 100.5, 2000.0), ("inductor", 60.5, 3000.0)):
            metrics = {"samples": samples, "target/reached": 1.0, "target/seconds": billed - 5}
            tracked.trained(
                label, repeat, billed + repeat, metrics=metrics, params=ends, baseline=label == "none", losses=[]
            )
    report = render(tracked.client, tracked.group, "t")
    answer = "“inductor” is cheaper: 40 % fewer billable seconds to eval_loss 0.45 than “none”."
    assert summary(report)["headline"] == answer
    assert summary(report)["contrasts"][0]["target"] == {"metric": "eval_loss", "value": "0.45"}
    assert "did equal work" in html_page(report)
