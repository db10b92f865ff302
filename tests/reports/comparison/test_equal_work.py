"""Test that every successful job counts for equal work, also one whose cache state the tables leave out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from judging.design import Design
from reports.comparison.arms import Arm, Job
from reports.comparison.comparison import Verdict, judge
from reports.comparison.equal_work import not_reached, target_of, work_differences
from reports.comparison.looks import one_look, progress_of
from reports.render import render
from tests.support.reports.verdicts import ACCURACY, descriptions, job

DESIGN = Design(looks=(5,))
AT_045 = {"hp_target_stop": "True", "hp_target_metric": "eval_loss", "hp_target_value": "0.45"}
COSTS = (100.0, 101.0, 99.0, 100.5, 99.5)


def numbered(label: str, *jobs: Job, **text: str) -> Arm:
    return Arm(label, tuple(replace(each, repeat=str(at), text={**each.text, **text}) for at, each in enumerate(jobs)))


def to_target(label: str, reached: tuple[bool, ...], ratio: float = 1.0, caches: tuple[str, ...] = ("off",) * 5) -> Arm:
    return numbered(
        label,
        *(
            job(ratio * COSTS[at], cache=caches[at], target_reached=float(each), samples=100.0 * at)
            for at, each in enumerate(reached)
        ),
        **AT_045,
    )


def one_cold(**cold: Any) -> Arm:
    """Return an arm with one job that found a cold cache, and four that found a warm one."""
    warm = (job(0.75 * COSTS[at], cache="warm") for at in range(1, 5))
    first = job(75.0, cache="cold", **{name: value for name, value in cold.items() if isinstance(value, float)})
    text = {name: value for name, value in cold.items() if isinstance(value, str)}
    return numbered("inductor", replace(first, text={**first.text, **text}), *warm)


BASELINE = numbered("none", *map(job, COSTS))


def verdict(arm: Arm, baseline: Arm, design: Design = DESIGN) -> Verdict:
    arms = [baseline, arm]
    return judge(arm, baseline, ACCURACY, progress=progress_of(design, [each.label for each in arms], arms))


def test_an_arm_whose_cold_job_missed_the_target_is_not_cheaper() -> None:
    caches = ("cold", "warm", "warm", "warm", "warm")
    arm, baseline = to_target("inductor", (False, *(True,) * 4), 0.75, caches), to_target("none", (True,) * 5)
    assert arm.cache_state == "warm"
    assert target_of(arm, baseline) is not None
    assert [job.repeat for job in not_reached(arm)] == ["0"]
    result = verdict(arm, baseline)
    assert (result.outcome, result.reason) == ("not cheaper", "1 of 5 jobs of “inductor” did not reach eval_loss 0.45")
    # By the first rules too.
    assert judge(arm, baseline, ACCURACY).outcome == "not cheaper"


@pytest.mark.parametrize("hits", [0, 1])
def test_an_arm_that_misses_its_target_in_nearly_all_jobs_is_not_cheaper(hits: int) -> None:
    """No look is possible: at most one job counts as successful."""
    arm, baseline = to_target("inductor", tuple(at < hits for at in range(5)), 0.5), to_target("none", (True,) * 5)
    result = verdict(arm, baseline)
    reason = f"{5 - hits} of 5 jobs of “inductor” did not reach eval_loss 0.45"
    assert (result.outcome, result.reason, result.misses_target) == ("not cheaper", reason, True)


def test_a_baseline_that_misses_its_target_in_all_jobs_is_inconclusive() -> None:
    result = verdict(to_target("inductor", (True,) * 5, 0.5), to_target("none", (False,) * 5))
    assert (result.outcome, result.misses_target) == ("inconclusive", False)
    assert result.reason == "5 of 5 jobs of “none” did not reach eval_loss 0.45"


def test_fail_on_worse_includes_a_missed_target(tracked: Any) -> None:
    params = {"hp.target_stop": True, "hp.target_metric": "eval_loss", "hp.target_value": 0.45}
    for repeat in range(3):
        for label, reached in (("none", 1.0), ("inductor", 0.0)):
            metrics = {"target/reached": reached}
            tracked.trained(label, repeat, 100.5 + repeat, metrics=metrics, params=params, baseline=label == "none")
    report = render(tracked.client, tracked.group, "t")
    assert report.results == {"worse": ("inductor",)}


def test_arms_without_a_common_cache_state_have_too_few_jobs() -> None:
    """Two compiled arms, one always cold and one always warm: there is nothing to compare."""
    warm = numbered("b", *(job(80.0 + at, cache="warm") for at in range(3)))
    cold = numbered("a", *(job(140.0 + at, cache="cold") for at in range(3)))
    result = judge(warm, cold, ACCURACY, progress=one_look(Design(), [cold, warm], has_seeds=False))
    assert result.outcome == "inconclusive"
    assert result.reason == "the arms have too few jobs that found the same state of the compile cache"


def test_equal_jobs_of_both_cache_states_are_comparable() -> None:
    assert work_differences(one_cold(), BASELINE) == []
    assert verdict(one_cold(), BASELINE).outcome == "cheaper"


@pytest.mark.parametrize(
    ("cold", "difference"),
    [
        ({"samples": 500.0}, "the samples seen differ (500 to 2,000)"),
        ({"data_key": "other"}, "the data differs (k, other)"),
        ({"device": "gpu"}, "the device differs (cpu, gpu)"),
        ({"versions": "torch 2.9"}, ""),
    ],
)
def test_a_cold_job_that_did_other_work_is_not_comparable(cold: dict[str, Any], difference: str) -> None:
    """A version that only one job recorded is not a difference: the images decide."""
    expected = [difference] if difference else []
    assert descriptions(work_differences(one_cold(**cold), BASELINE)) == expected
    assert (verdict(one_cold(**cold), BASELINE).outcome == "not comparable") is bool(difference)


def test_a_cold_job_without_a_price_prevents_a_comparison_in_dollars() -> None:
    def on(arm: Arm, instance_type: str, usd: float, unpriced: str = "") -> Arm:
        return Arm(
            arm.label,
            tuple(
                replace(
                    each,
                    text={**each.text, "instance_type": instance_type},
                    numbers={**each.numbers, **({} if each.repeat == unpriced else {"cost_usd": usd})},
                )
                for each in arm.jobs
            ),
        )

    baseline = on(BASELINE, "ml.small", 1.0)
    assert work_differences(on(one_cold(), "ml.large", 1.0), baseline) == []
    assert descriptions(work_differences(on(one_cold(), "ml.large", 1.0, unpriced="0"), baseline)) == [
        "the instance type differs (ml.large, ml.small) and not every job has a price"
    ]


def with_precision(label: str, used: str, requested: str | None, **text: str) -> Arm:
    request = {} if requested is None else {"requested_precision": requested}
    return numbered(label, *map(job, COSTS), hp_precision=used, **request, **text)


def test_auto_must_choose_one_precision_on_equal_machines() -> None:
    difference = work_differences(with_precision("a", "fp32", "auto"), with_precision("b", "bf16", "auto"))
    assert descriptions(difference) == ["the precision that `auto` chose differs (bf16, fp32)"]
    assert [each.kind for each in difference] == ["machine"]


@pytest.mark.parametrize("requested", [("fp32", "bf16"), ("auto", "bf16"), ("fp32", "auto"), (None, None)])
def test_an_experiment_may_compare_precisions(requested: tuple[str | None, str | None]) -> None:
    """Runs of earlier versions do not record the request, so the experiment may have set the field."""
    assert not work_differences(with_precision("a", "fp32", requested[0]), with_precision("b", "bf16", requested[1]))


def test_auto_may_choose_by_the_instance_type() -> None:
    """Half the price: the arms are compared in dollars."""
    cpu = with_precision("a", "fp32", "auto", instance_type="ml.m5.large")
    gpu = with_precision("b", "bf16", "auto", instance_type="ml.g5.xlarge")
    priced = [
        Arm(a.label, tuple(replace(j, numbers={**j.numbers, "cost_usd": 1.0}) for j in a.jobs)) for a in (cpu, gpu)
    ]
    assert work_differences(*priced) == []
