"""Arms whose jobs all end at the same target: samples differ by design, and what counts is the bill until then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reports.comparison import messages
from reports.comparison.arms import Arm
from reports.comparison.comparison import Comparison, Contrast
from reports.comparison.equal_work import Target, target_of, work_differences
from reports.comparison.verdict import judge
from reports.formats.html import html_page
from reports.formats.summary import summary
from reports.render import render
from tests.support.reports.verdicts import ACCURACY, descriptions
from tests.support.reports.verdicts import arm as whole_arm

AT_045 = {"hp_target_stop": "True", "hp_target_metric": "eval_loss", "hp_target_value": "0.45"}


def arm(label: str, *paid: float, samples: float = 2000.0, reached: int | None = None, **text: str) -> Arm:
    """Jobs that end at eval_loss 0.45, or at what `text` says; `reached` of them, or all, come to it."""
    made = whole_arm(*paid, label=label, samples=samples)
    came = len(paid) if reached is None else reached
    return Arm(
        label,
        tuple(
            replace(
                job, text={**job.text, **AT_045, **text}, numbers={**job.numbers, "target_reached": float(i < came)}
            )
            for i, job in enumerate(made.jobs)
        ),
    )


BASELINE = arm("none", 100.5, 101.5, 99.5)


def test_fewer_seconds_to_the_same_target_whatever_the_samples() -> None:
    """80.5 over 100.5 is 0.80: 20 % fewer, after twice the samples."""
    quick = arm("inductor", 80.5, 81.5, 79.5, samples=4000.0)
    verdict = judge(quick, BASELINE, ACCURACY)
    assert (verdict.outcome, verdict.target, verdict.quality) == ("cheaper", Target("eval_loss", "0.45"), None)
    contrast = Contrast(quick, verdict, None, {})
    comparison = Comparison("g", (BASELINE, quick), (contrast,), ACCURACY)
    told = "20 % fewer billable seconds to eval_loss 0.45 than “none”"
    assert messages.headline(comparison) == f"“inductor” is cheaper: {told}."
    assert messages.verdict_sentence(contrast, BASELINE).startswith(f"{told} (95 % interval: ")


def test_who_reached_the_target_has_its_quality_whatever_else_is_measured() -> None:
    worse = arm("inductor", 80.5, 81.5, 79.5)
    worse = Arm("inductor", tuple(replace(j, numbers={**j.numbers, "eval_accuracy": 0.1}) for j in worse.jobs))
    assert judge(worse, BASELINE, ACCURACY).outcome == "cheaper"


@pytest.mark.parametrize(
    ("paid", "outcome"), [((120.5, 121.5, 119.5), "not cheaper"), ((90.5, 110.5, 99.0), "inconclusive")]
)
def test_the_interval_decides_as_elsewhere(paid: tuple[float, ...], outcome: str) -> None:
    assert judge(arm("inductor", *paid), BASELINE, ACCURACY).outcome == outcome


def test_an_arm_that_does_not_always_reach_the_target_is_not_cheaper() -> None:
    missing = arm("inductor", 50.5, 51.5, 49.5, reached=1)
    verdict = judge(missing, BASELINE, ACCURACY)
    told = "2 of 3 jobs of “inductor” did not reach eval_loss 0.45"
    assert (verdict.outcome, verdict.reason, verdict.ratio) == ("not cheaper", told, None)
    assert messages.verdict_sentence(Contrast(missing, verdict, None, {}), BASELINE) == f"{told}."


@pytest.mark.parametrize("reached", [0, 3])
def test_where_the_baseline_does_not_reach_it_nothing_is_shown(reached: int) -> None:
    baseline = arm("none", 100.5, 101.5, 99.5, reached=2)
    verdict = judge(arm("inductor", 50.5, 51.5, 49.5, reached=reached), baseline, ACCURACY)
    assert (verdict.outcome, verdict.reason) == ("inconclusive", "1 of 3 jobs of “none” did not reach eval_loss 0.45")


def test_one_repeat_is_not_enough_here_either() -> None:
    assert judge(arm("inductor", 50.5), BASELINE, ACCURACY).reason.startswith("“inductor” has 1 successful repeat;")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ({"hp_target_value": "0.5"}, "differs (eval_loss 0.45, eval_loss 0.5)"),
        ({"hp_target_metric": "eval_accuracy"}, "differs (eval_accuracy 0.45, eval_loss 0.45)"),
        ({"hp_target_stop": "False"}, "differs (eval_loss 0.45, none)"),
    ],
)
def test_other_targets_are_other_work(text: dict[str, str], reason: str) -> None:
    assert descriptions(work_differences(arm("inductor", 1.0, **text), BASELINE)) == [
        f"the target at which the training ends {reason}"
    ]


def test_a_target_that_is_only_timed_is_no_end() -> None:
    timed = [arm(label, 80.5, samples=n, hp_target_stop="False") for label, n in (("a", 1000.0), ("b", 2000.0))]
    assert target_of(*timed) is None
    assert descriptions(work_differences(*timed)) == ["the samples seen differ (1,000 to 2,000)"]


def test_data_and_device_count_as_ever() -> None:
    assert descriptions(work_differences(arm("inductor", 1.0, device="gpu"), BASELINE)) == [
        "the device differs (cpu, gpu)"
    ]


def test_the_page_says_what_a_target_means(tracked: Any) -> None:
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
