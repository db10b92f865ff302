"""Test the work that arms must have in common; jobs count for it too if the tables leave out their cache state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from judging.design import Design
from reports.comparison.comparison import Comparison, Contrast, Verdict, compare, judge, not_reached, work_differences
from reports.comparison.report import results_by_arm
from reports.comparison.tables import figures
from tests.support.reports.verdicts import ACCURACY, AT_045, arm, descriptions, job, numbered, to_target, with_text
from tracking.recorded.arms import Arm, target_of
from tracking.recorded.waves import one_look, progress_of, trains_alike

DESIGN = Design(looks=(5,))
COSTS = (100.0, 101.0, 99.0, 100.5, 99.5)


def reaching(label: str, reached: tuple[bool, ...], ratio: float = 1.0, caches: tuple[str, ...] = ("off",) * 5) -> Arm:
    """Return an arm whose jobs end at a target; `reached` says which ones reach it."""
    jobs = [
        job(ratio * COSTS[at], cache=caches[at], target_reached=float(each), samples=100.0 * at)
        for at, each in enumerate(reached)
    ]
    return numbered(label, *jobs, **AT_045)


def one_cold(**cold: Any) -> Arm:
    """Return an arm with one job that found a cold cache, and four that found a warm one."""
    warm = (job(0.75 * COSTS[at], cache="warm") for at in range(1, 5))
    first = job(75.0, cache="cold", **{name: value for name, value in cold.items() if isinstance(value, float)})
    text = {name: value for name, value in cold.items() if isinstance(value, str)}
    return numbered("inductor", replace(first, text={**first.text, **text}), *warm)


BASELINE = numbered("none", *map(job, COSTS))
REACHED = reaching("none", (True,) * 5)


def verdict(mine: Arm, baseline: Arm) -> Verdict:
    arms = [baseline, mine]
    return judge(mine, baseline, ACCURACY, progress=progress_of(DESIGN, [each.label for each in arms], arms))


def test_an_arm_whose_cold_job_missed_the_target_is_not_cheaper() -> None:
    mine = reaching("inductor", (False, *(True,) * 4), 0.75, ("cold", *("warm",) * 4))
    assert mine.cache_state == "warm"
    assert target_of(mine, REACHED) is not None
    assert [job.repeat for job in not_reached(mine)] == ["0"]
    result = verdict(mine, REACHED)
    assert (result.outcome, result.reason) == ("not cheaper", "1 of 5 jobs of “inductor” did not reach eval_loss 0.45")


@pytest.mark.parametrize("hits", [0, 1])
def test_an_arm_that_misses_its_target_in_nearly_all_jobs_is_not_cheaper(hits: int) -> None:
    """No look is possible: at most one job counts as successful."""
    mine = reaching("inductor", tuple(at < hits for at in range(5)), 0.5)
    result = verdict(mine, REACHED)
    reason = f"{5 - hits} of 5 jobs of “inductor” did not reach eval_loss 0.45"
    assert (result.outcome, result.reason, result.misses_target) == ("not cheaper", reason, True)
    comparison = Comparison("g", (REACHED, mine), (Contrast(mine, result, None, {}),), ACCURACY)
    assert results_by_arm(comparison) == {"worse": ("inductor",)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ({"hp_target_value": "0.5"}, "differs (eval_loss 0.45, eval_loss 0.5)"),
        ({"hp_target_metric": "eval_accuracy"}, "differs (eval_accuracy 0.45, eval_loss 0.45)"),
        ({"hp_target_stop": "False"}, "differs (eval_loss 0.45, none)"),
    ],
)
def test_different_targets_are_different_work(text: dict[str, str], reason: str) -> None:
    mine, baseline = with_text(to_target("inductor", 1.0), **text), to_target("none", 1.0)
    assert descriptions(work_differences(mine, baseline)) == [f"the target at which the training ends {reason}"]


def test_a_target_that_does_not_end_the_job_is_ignored() -> None:
    timed = [
        with_text(to_target(label, 80.5, samples=n), hp_target_stop="False") for label, n in (("a", 1e3), ("b", 2e3))
    ]
    assert target_of(*timed) is None
    assert descriptions(work_differences(*timed)) == ["the samples seen differ (1,000 to 2,000)"]


def test_arms_without_a_common_cache_state_have_too_few_jobs() -> None:
    """Two compiled arms, one always cold and one always warm: there is nothing to compare."""
    warm = numbered("b", *(job(80.0 + at, cache="warm") for at in range(3)))
    cold = numbered("a", *(job(140.0 + at, cache="cold") for at in range(3)))
    result = judge(warm, cold, ACCURACY, progress=one_look(Design(), [cold, warm]))
    assert result.outcome == "inconclusive"
    assert result.reason == "the arms have too few jobs that found the same state of the compile cache"


@pytest.mark.parametrize(
    ("cold", "difference"),
    [
        ({}, ""),
        ({"samples": 500.0}, "the samples seen differ (500 to 2,000)"),
        ({"device": "gpu"}, "the device differs (cpu, gpu)"),
        # A version that only one job recorded is not a difference: the images decide.
        ({"versions": "torch 2.9"}, ""),
    ],
)
def test_a_cold_job_that_did_other_work_is_not_comparable(cold: dict[str, Any], difference: str) -> None:
    assert descriptions(work_differences(one_cold(**cold), BASELINE)) == ([difference] if difference else [])
    assert verdict(one_cold(**cold), BASELINE).outcome == ("not comparable" if difference else "cheaper")


def test_machines_need_a_price_for_every_job_and_one_type_in_each_arm() -> None:
    def on(of: Arm, instance_type: str, unpriced: str = "") -> Arm:
        priced = with_text(of, instance_type=instance_type)
        costs = [{} if each.repeat == unpriced else {"cost_usd": 1.0} for each in priced.jobs]
        jobs = zip(priced.jobs, costs, strict=True)
        return Arm(of.label, tuple(replace(each, numbers={**each.numbers, **cost}) for each, cost in jobs))

    small, large = on(BASELINE, "ml.small"), on(one_cold(), "ml.large")
    assert work_differences(large, small) == []
    assert descriptions(work_differences(on(one_cold(), "ml.large", unpriced="0"), small)) == [
        "the instance type differs (ml.large, ml.small) and not every job has a price"
    ]
    # One of the arm's jobs fell back to a different instance type.
    mixed = Arm("a", (large.jobs[0], *small.jobs[1:]))
    assert "the instance type differs (ml.large, ml.small)" in descriptions(work_differences(mixed, small))


def test_equal_samples_are_equal_within_one_percent() -> None:
    assert descriptions(work_differences(arm(80.5, samples=1984.0), BASELINE)) == []
    assert descriptions(work_differences(arm(80.5, samples=1000.0), BASELINE)) == [
        "the samples seen differ (1,000 to 2,000)"
    ]
    assert descriptions(work_differences(arm(80.5, samples=float("nan")), BASELINE)) == [
        "some jobs did not record how many samples they saw"
    ]


def language_model(label: str, samples: float, tokens: float = float("nan"), **text: str) -> Arm:
    numbers = {"throughput_steady_samples_per_second": samples / 10, "throughput_steady_tokens_per_second": tokens / 10}
    jobs = (job(cost, samples=samples, tokens=tokens, **numbers) for cost in COSTS)
    return numbered(label, *jobs, **{"hp_task": "causal-lm", "rows_key": "rows", "data_key": label, **text})


PACKED = language_model("packed", 412, 52_736)


@pytest.mark.parametrize(
    ("mine", "differences"),
    [
        (language_model("rows", 2400, 52_794), []),
        (language_model("rows", 720, 15_840), ["the tokens seen differ (15,840 to 52,736)"]),
        (language_model("rows", 2400, 52_794, rows_key="others"), ["the data differs (others, rows)"]),
        # The same rows: their number is exact, and their tokens depend on the draw.
        (language_model("packed", 400, 52_736), ["the samples seen differ (400 to 412)"]),
        (language_model("packed", 412, 50_000), []),
        # Jobs of earlier versions did not record tokens, and tags of rows.
        (language_model("rows", 2400), ["the samples seen differ (412 to 2,400)"]),
        (with_text(language_model("rows", 412), rows_key=""), ["the data differs (packed, rows)"]),
        # For other tasks a row is a row, whatever its length.
        (language_model("rows", 2400, 52_736, hp_task="classification"), ["the samples seen differ (412 to 2,400)"]),
    ],
)
def test_work_is_counted_in_tokens_where_texts_are_packed_differently(mine: Arm, differences: list[str]) -> None:
    assert descriptions(work_differences(mine, PACKED)) == differences
    assert (verdict(mine, PACKED).outcome == "not comparable") == bool(differences)


def test_packed_and_unpacked_arms_learn_differently_and_differ_in_tokens_per_second() -> None:
    arms = (PACKED, language_model("rows", 2400, 105_472))
    rows = [
        {
            **each.text,
            **each.numbers,
            "run_id": arm.label,
            "status": "FINISHED",
            "arm": arm.label,
            "repeat": each.repeat,
        }
        for arm in arms
        for each in arm.jobs
    ]
    comparison = compare(pd.DataFrame(rows), "g", allowed={"samples"})
    assert not trains_alike(comparison.arms[1], comparison.arms[0])
    [contrast] = comparison.contrasts
    assert (contrast.speed_up and contrast.speed_up.estimate, contrast.break_evens) == (pytest.approx(2.0), {})
    steady = next(column for column in figures(comparison) if column.name == "steady rate")
    assert (steady.unit, steady.head) == ("tokens/s", "steady\ntokens\n/s")


def with_precision(label: str, used: str, requested: str | None, **text: str) -> Arm:
    request = {} if requested is None else {"requested_precision": requested}
    return numbered(label, *map(job, COSTS), hp_precision=used, **request, **text)


def test_auto_must_choose_one_precision_on_equal_machines() -> None:
    [difference] = work_differences(with_precision("a", "fp32", "auto"), with_precision("b", "bf16", "auto"))
    assert difference == ("machine", "the precision that `auto` chose differs (bf16, fp32)")
    # But it may choose by the instance type.
    cpu = with_precision("a", "fp32", "auto", instance_type="ml.m5.large")
    gpu = with_precision("b", "bf16", "auto", instance_type="ml.g5.xlarge")
    priced = [
        Arm(a.label, tuple(replace(j, numbers={**j.numbers, "cost_usd": 1.0}) for j in a.jobs)) for a in (cpu, gpu)
    ]
    assert work_differences(*priced) == []
    # Within an arm it may not.
    mixed = Arm("a", (*cpu.jobs[:2], *with_precision("a", "bf16", "auto", instance_type="ml.m5.large").jobs[2:]))
    assert "the precision differs (bf16, fp32)" in descriptions(work_differences(mixed, cpu))


@pytest.mark.parametrize("requested", [("fp32", "bf16"), ("fp32", "auto"), (None, None)])
def test_an_experiment_may_compare_precisions(requested: tuple[str | None, str | None]) -> None:
    """Runs of earlier versions do not record the request, so the experiment may have set the field."""
    assert not work_differences(with_precision("a", "fp32", requested[0]), with_precision("b", "bf16", requested[1]))
