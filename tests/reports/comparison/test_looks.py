"""Test which jobs count at the looks of a comparison, the verdicts of its last look, and how reports show them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from judging.design import RULES, Design
from judging.result import Result
from reports.comparison.comparison import Comparison, Contrast, Verdict, judge
from reports.comparison.messages import (
    bill_sentences,
    caveat_sentences,
    disturbance_sentences,
    headline,
    scaling_sentences,
    verdict_sentence,
)
from reports.formats.html import html_page
from reports.formats.text import summary
from reports.model.report import Report
from reports.render import render
from tests.support.reports.reading import page_cells, page_text
from tests.support.reports.verdicts import ACCURACY, job
from tests.support.reports.worked_cases import spread
from tracking.groups.plan_file import DESIGN as DESIGN_TAG
from tracking.groups.plan_file import write_design
from tracking.recorded.arms import BILLABLE, Arm
from tracking.recorded.recorded_job import Job
from tracking.recorded.waves import jobs_to_repeat, progress_of, results_of, trains_alike
from training.contract.errors import InputError

DESIGN = Design()
COSTS = (100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1, 99.9)
SCORES = (0.90, 0.91, 0.89, 0.90, 0.905, 0.895, 0.90, 0.91, 0.89)


def jobs(ratio: float, repeats: int, scores: tuple[float, ...] = SCORES, **fields: Any) -> list[Job]:
    return [
        replace(job(ratio * COSTS[at], eval_accuracy=scores[at]), repeat=str(at), **fields) for at in range(repeats)
    ]


def arm(label: str, *of: Job) -> Arm:
    return Arm(label, of)


BASELINE = arm("none", *jobs(1.0, 3))


def verdict(other: Arm, baseline: Arm = BASELINE, design: Design = DESIGN) -> Verdict:
    both = [baseline, other]
    progress = progress_of(design, [each.label for each in both], both)
    return judge(other, baseline, ACCURACY, progress=progress)


def failed(of: Job, failure_class: str) -> Job:
    return replace(of, status="FAILED", text={**of.text, "failure_class": failure_class})


def test_an_arm_is_judged_at_the_first_look() -> None:
    clear = verdict(arm("inductor", *jobs(0.8, 3)))
    assert (clear.outcome, clear.reason) == ("cheaper", "")
    assert clear.quality is not None
    assert clear.quality.margin == 0.03
    worse = verdict(arm("inductor", *jobs(0.8, 3, tuple(score - 0.1 for score in SCORES))))
    assert (worse.outcome, worse.reason) == ("not cheaper", "but the accuracy is worse")
    equal = verdict(arm("inductor", *jobs(1.0, 3)))
    assert (equal.outcome, equal.reason) == ("not cheaper", "and a gain of 5 % is unlikely")
    early = verdict(arm("inductor", *jobs(0.8, 2)))
    assert (early.outcome, early.reason) == ("inconclusive", "the first wave has not ended")


def test_quality_that_is_not_shown_is_named_with_the_repeats_that_would_show_it() -> None:
    noisy = (0.87, 0.93, 0.90)
    baseline = arm("none", *jobs(1.0, 3, noisy))
    larger = [replace(each, numbers={**each.numbers, "hp_batch_size": 64.0}) for each in jobs(0.8, 3, noisy)]
    result = verdict(arm("batch 64", *larger), baseline, Design(looks=(3,)))
    # Error sqrt(2 x 0.0009 / 3), 4 degrees of freedom, t(0.95) = 2.131847: 0.0522. 13 repeats: (1.7109 + 0.8569) x
    # 0.03 x sqrt(2 / 13) = 0.0302, and 14: (1.7056 + 0.8557) x 0.03 x sqrt(2 / 14) = 0.0290.
    assert result.outcome == "cheaper, quality not shown"
    assert result.reason == (
        "but the accuracy may be up to 0.052 worse, and 0.030 is acceptable: 14 repeats of each setting would show it"
    )


def test_failed_jobs_are_paid_for_and_counted() -> None:
    cheap = jobs(0.8, 5)
    failing = arm("inductor", *cheap[:3], *(failed(each, "OutOfMemory") for each in cheap[3:]))
    result = verdict(failing, arm("none", *jobs(1.0, 5)), Design(looks=(5,)))
    assert (result.outcome, result.reason) == ("inconclusive", "but 2 of 5 jobs failed, more than a third")
    assert result.ratio is not None
    assert result.ratio.estimate == pytest.approx(0.8 * 5 / 3, rel=0.02)


def test_jobs_that_say_nothing_about_the_setting_do_not_count() -> None:
    stopped = arm("inductor", *jobs(0.8, 2), failed(jobs(0.8, 3)[2], "Stopped"))
    results = results_of(DESIGN, [BASELINE, stopped], ACCURACY)
    assert results["inductor", 2] is None
    assert results["inductor", 1] is not None
    assert ("inductor", 3) not in results
    unbilled = arm("inductor", *jobs(0.8, 2), replace(job(float("nan")), repeat="2"))
    assert results_of(DESIGN, [BASELINE, unbilled], ACCURACY)["inductor", 2] == Result(None, 0.9, repeat=2)


def with_cold_jobs(cold: int, repeats: int) -> Arm:
    """Return an arm that costs 140 with a cold cache and 80 with a warm one, where the baseline costs 100."""
    warm = jobs(0.8, repeats, cache_state="warm")
    return arm("inductor", *jobs(1.4, cold, cache_state="cold"), *warm[cold:])


def test_the_verdict_is_for_a_warm_cache_with_the_cold_cost_beside_it() -> None:
    baseline, mixed = arm("none", *jobs(1.0, 9)), with_cold_jobs(1, 9)
    result = verdict(mixed, baseline, Design(looks=(9,), trainings=100))
    assert (result.outcome, result.ratio and (result.ratio.n_arm, result.ratio.n_baseline)) == ("cheaper", (8, 9))
    contrast = Contrast(mixed, result, None, {})
    assert verdict_sentence(contrast, baseline).startswith(
        "20 % fewer billable seconds than “none” with a warm compile cache (95 % interval: "
    )
    # The extra 60 s are earned back at 20 s a training, and (140 + 99 x 80) / 100 x 100 is 0.806.
    assert bill_sentences(result) == [
        "Not judged: the first training, with a cold compile cache, costs 40 % more billable seconds (1 job).",
        "With it, 100 trainings cost 19 % fewer.",
        "It is earned back after 4 trainings.",
    ]
    comparison = Comparison("g", (baseline, mixed), (contrast,), ACCURACY)
    assert headline(comparison) == (
        "“inductor” is cheaper: 20 % fewer billable seconds than “none” with a warm compile cache."
    )
    fresh = arm("inductor", *jobs(1.4, 3, cache_state="cold"))
    assert (verdict(fresh).cold, verdict(fresh).outcome) == (None, "not cheaper")
    warm = jobs(1.1, 9, cache_state="warm")[1:]
    dearer = verdict(arm("inductor", *jobs(1.4, 1, cache_state="cold"), *warm), arm("none", *jobs(1.0, 9)))
    assert bill_sentences(dearer)[-1] == "It is never earned back: later trainings do not cost less."


def test_a_mean_bill_that_differs_from_the_typical_job_is_said() -> None:
    slow = [
        replace(each, numbers={**each.numbers, BILLABLE: seconds})
        for each, seconds in zip(jobs(0.8, 9), (80.0, 80.5, 81.0, 79.5, 80.2, 79.8, 80.1, 80.3, 270.0), strict=True)
    ]
    result = verdict(arm("inductor", *slow), arm("none", *jobs(1.0, 9)), Design(looks=(9,)))
    assert (result.outcome, result.reason) == ("inconclusive", "but the mean bill is no lower")
    # 911.4 s of nine jobs, against 900 s.
    assert bill_sentences(result) == [
        "That is the typical job. The mean bill is 1.3 % more, because a few jobs took much longer."
    ]


def disturbed(of: Job) -> Job:
    return replace(of, numbers={**of.numbers, "machine_others_cpu_percent": 48.0})


def again(of: Job) -> Job:
    return replace(of, text={**of.text, "role": "again"})


REPEATS_DISTURBED = Design(when_disturbed="repeat")


def test_a_disturbed_job_is_due_again_once() -> None:
    first, second, third = jobs(0.8, 3)
    other = arm("inductor", first, disturbed(second), third)
    state = progress_of(REPEATS_DISTURBED, ["none", "inductor"], [BASELINE, other])
    assert state.due == (("inductor", 1),)
    assert jobs_to_repeat(REPEATS_DISTURBED, [BASELINE, other]) == {("inductor", 1)}
    repeated = arm("inductor", first, disturbed(second), third, again(disturbed(jobs(0.8, 2)[1])))
    state = progress_of(REPEATS_DISTURBED, ["none", "inductor"], [BASELINE, repeated])
    assert (state.due, state.stopped) == ((), {"inductor": "cheaper"})
    assert jobs_to_repeat(REPEATS_DISTURBED, [BASELINE, repeated]) == {("inductor", 1)}


def test_the_second_job_counts_in_place_of_the_disturbed_one() -> None:
    slow, fast = disturbed(jobs(4.0, 1)[0]), again(jobs(0.8, 1)[0])
    other = arm("inductor", slow, *jobs(0.8, 3)[1:], fast)
    assert [job.number("cost_billable_instance_seconds") for job in other.replaced] == [400.0]
    assert len(other.succeeded) == 3
    results = results_of(REPEATS_DISTURBED, [BASELINE, other], ACCURACY)
    assert results["inductor", 0] == Result(80.0, 0.9, repeat=0)
    # Also if it failed.
    lost = arm("inductor", slow, *jobs(0.8, 3)[1:], failed(fast, "OutOfMemory"))
    counted = results_of(REPEATS_DISTURBED, [BASELINE, lost], ACCURACY)["inductor", 0]
    assert counted is not None
    assert not counted.succeeded


def test_disturbed_jobs_are_counted_in_one_sentence() -> None:
    quiet = [replace(each, numbers={**each.numbers, "machine_steal_percent": 0.1}) for each in jobs(0.8, 3)]
    assert disturbance_sentences(quiet) == []
    assert disturbance_sentences(jobs(0.8, 3)) == []
    assert disturbance_sentences([quiet[0], disturbed(quiet[1]), again(quiet[1])]) == [
        "1 of 3 jobs was disturbed: during a, repeat 2, other processes used 48 % of the job's CPUs. 1 job ran again: "
        "the second run counts."
    ]


def test_an_undecided_comparison_with_disturbed_jobs_names_the_field_that_repeats_them() -> None:
    hint = "With compare.when_disturbed=repeat, each disturbed job runs once more."

    def caveats(other: Arm, design: Design = DESIGN) -> list[str]:
        contrast = Contrast(other, verdict(other), None, {})
        return caveat_sentences(Comparison("g", (BASELINE, other), (contrast,), ACCURACY, design))

    unlike = [jobs(ratio, 3)[at] for at, ratio in enumerate((0.7, 1.2, 0.9))]
    undecided = arm("inductor", *map(disturbed, unlike))
    assert hint in caveats(undecided)
    assert hint not in caveats(undecided, REPEATS_DISTURBED)
    assert hint not in caveats(arm("inductor", *unlike))  # quiet
    assert hint not in caveats(arm("inductor", *map(disturbed, jobs(0.8, 3))))  # decided


def test_an_arm_whose_rate_grows_with_its_batch_is_noted() -> None:
    def at(label: str, size: float, rate: float) -> Arm:
        numbers = {"optim_global_batch_size": size, "hp_learning_rate": rate}
        return arm(label, *(replace(each, numbers={**each.numbers, **numbers}) for each in jobs(1.0, 3)))

    [note] = scaling_sentences([at("batch 8", 8, 1e-4), at("batch 32", 32, 4e-4), at("batch 16", 16, 2e-4)])
    assert note.startswith("“batch 32”: the learning rate grows as much as the batch size")
    assert scaling_sentences([at("batch 8", 8, 1e-4), at("batch 32", 32, 2e-4)]) == []


def test_arms_that_train_alike_are_compared_seed_by_seed() -> None:
    spread = (0.80, 0.90, 0.85)
    baseline, other = arm("none", *jobs(1.0, 3, spread)), arm("inductor", *jobs(0.8, 3, spread))
    assert trains_alike(other, baseline)
    assert verdict(other, baseline).outcome == "cheaper"
    larger = arm("batch 64", *(replace(each, numbers={**each.numbers, "hp_batch_size": 64.0}) for each in other.jobs))
    assert not trains_alike(larger, baseline)
    # Batches have the same rows with all kinds of padding but `max_length`.
    padded = {kind: arm("", *jobs(1.0, 3, text={"hp_padding": kind})) for kind in ("longest", "buckets", "max_length")}
    assert trains_alike(padded["longest"], padded["buckets"])
    assert not trains_alike(padded["longest"], padded["max_length"])
    assert verdict(larger, baseline).outcome == "cheaper, quality not shown"


def reported(tracked: Any, design: Design | None, baseline: tuple[float, ...], **arms: tuple[float, ...]) -> Report:
    """Return the report of a stored group."""
    tags = {"platform.kind": "group", "platform.group": tracked.group, "platform.verb": "compare"}
    tracked.client.create_run(tracked.experiment_id, tags=tags | ({DESIGN_TAG: write_design(design)} if design else {}))
    for label, costs in {"none": baseline, **arms}.items():
        for repeat, seconds in enumerate(costs):
            tracked.trained(label, repeat, seconds, baseline=label == "none", losses=[])
    return render(tracked.client, tracked.group, "t")


TRACKED = (100.0, 101.0, 99.0, 102.0, 98.0)
LATE = (97.0, 94.0, 91.0, 95.0, 93.0)


def test_page_and_json_show_the_looks_and_what_stopped_the_arms(tracked: Any) -> None:
    report = reported(tracked, Design(looks=(3, 5)), TRACKED, early=(60.0, 61.0, 59.0), late=LATE)
    numbers = summary(report)
    [first, second] = [row for row in page_cells(report) if row.get("repeats", "").startswith("after ")]
    assert (first["repeats"], second["repeats"], second["early"]) == ("after 3", "after 5", "stopped")
    assert first["early"].startswith("40 % fewer (")
    assert first["early"].endswith("; stops: it is cheaper")
    assert first["late"].endswith("; continues")
    assert [each["repeats"] for each in numbers["looks"]] == [3, 5]
    assert [list(each["arms"]) for each in numbers["looks"]] == [["early", "late"], ["late"]]
    assert numbers["looks"][0]["arms"]["early"]["stops"] == "cheaper"
    assert numbers["looks"][0]["arms"]["early"]["ratio"]["estimate"] == pytest.approx(0.6, rel=1e-3)
    assert numbers["looks"][0]["arms"]["late"]["stops"] is None
    assert list(numbers["stopped"]) == ["early", "late"]


def test_a_stored_group_is_reported_by_the_looks_it_ran_under(tracked: Any) -> None:
    """0.893 has the logarithm -0.113169. The error is 0.0333310 with 4 degrees of freedom, see `worked_cases`, and the
    interval reaches 0.106278 to each side."""
    report = reported(tracked, Design(looks=(3, 9)), spread(100.0), inductor=spread(89.3))
    numbers = summary(report)
    assert numbers["rules"] == RULES
    assert f"Judged by version {RULES} of the rules" in html_page(report)
    look = numbers["looks"][0]["arms"]["inductor"]
    # Hwang, Shih and DeCani's spending at a third of the repeats: 0.05 * (1 - e^-1) / (1 - e^-3).
    assert look["level"] == pytest.approx(0.0332620, rel=1e-4)
    assert math.log(look["ratio"]["high"] / look["ratio"]["estimate"]) == pytest.approx(3.188558 * 0.0333310, rel=1e-4)
    assert numbers["contrasts"][0]["outcome"] == "cheaper"


def test_a_group_without_looks_has_one_at_its_end_and_a_damaged_tag_is_refused(tracked: Any) -> None:
    report = reported(tracked, None, TRACKED, late=LATE)
    assert "The looks" not in page_text(report)
    assert [each["repeats"] for each in summary(report)["looks"]] == [5]
    assert (summary(report)["stopped"], summary(report)["rules"]) == ({"late": "cheaper"}, RULES)
    tags = {"platform.kind": "group", "platform.group": tracked.group, DESIGN_TAG: "{"}
    tracked.client.create_run(tracked.experiment_id, tags=tags)
    with pytest.raises(InputError, match=r"tag platform\.design of group .demo-1. is .\{.: it must be"):
        render(tracked.client, tracked.group, "t")
