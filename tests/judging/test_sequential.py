"""Test looks at growing comparisons: when an arm stops, and why."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from judging.design import Design
from judging.result import Result
from judging.sequential import Look, fails_more, failure_note, look, look_at_arms
from tracking.recorded.recorded_job import EVALUATIONS

DESIGN = Design()
ACCURACY = EVALUATIONS["eval_accuracy"]
COSTS = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1, 99.9]


def results(costs: list[float], scores: list[float] | None = None) -> list[Result]:
    return [Result(cost, score) for cost, score in zip(costs, scores or [math.nan] * len(costs), strict=True)]


BASELINE = results(COSTS)


def scaled(ratio: float, repeats: int) -> list[Result]:
    return results([ratio * cost for cost in reversed(COSTS[:repeats])])


def test_three_repeats_are_judged_by_means() -> None:
    arm, baseline = [80.0, 82.0, 81.0], [100.0, 103.0, 98.0]
    result = look(results(arm), results(baseline), DESIGN, 0)
    assert result is not None
    assert result.level == pytest.approx(0.033262, abs=1e-6)
    logs = [[math.log(cost) for cost in side] for side in (arm, baseline)]
    scipys = stats.ttest_ind(*logs, equal_var=False)
    interval = scipys.confidence_interval(1 - result.level)
    assert (math.log(result.ratio.low), math.log(result.ratio.high)) == pytest.approx((interval.low, interval.high))
    assert math.log(result.least_ratio) == pytest.approx(scipys.confidence_interval(0.8).low)
    assert result.stops == "cheaper"


def test_five_repeats_are_judged_by_ranks() -> None:
    arm, baseline = [80.0, 81.0, 82.0, 83.0, 300.0], [100.0, 101.0, 102.0, 103.0, 104.0]
    result = look(results(arm), results(baseline), DESIGN, 1)
    assert result is not None
    ratios = sorted(mine / others for mine in arm for others in baseline)
    # Of the 15 geometric means of pairs of (80, 81, 82, 83, 300), the 7th is sqrt(81 * 83) = 81.994, the 8th 82 itself,
    # and the 9th sqrt(82 * 83) = 82.50. Of the baseline's, the 8th is sqrt(101 * 103).
    assert result.ratio.estimate == pytest.approx(82 / math.sqrt(101 * 103))
    # Level 0.017765: P(U <= 1) = 2 / 252 = 0.0079 fits half of it, and P(U <= 2) = 4 / 252 = 0.0159 does not.
    assert (result.ratio.low, result.ratio.high) == pytest.approx((ratios[1], ratios[-2]))
    # P(U <= 6) = 0.111 is above the 10 % of the one-sided interval, P(U <= 5) = 0.075 is not.
    assert result.least_ratio == pytest.approx(ratios[5])


@pytest.mark.parametrize(
    ("ratio", "number", "reason"),
    [
        (0.90, 0, "cheaper"),
        (1.10, 0, "dearer"),
        (1.00, 0, "no gain worth having"),
        (0.97, 3, "cheaper"),
        (1.02, 3, "dearer"),
    ],
)
def test_an_arm_stops_for_a_reason(ratio: float, number: int, reason: str) -> None:
    repeats = DESIGN.looks[number]
    result = look(scaled(ratio, repeats), BASELINE[:repeats], DESIGN, number)
    assert result is not None
    assert result.stops == reason


def test_an_undecided_arm_continues_until_the_last_look() -> None:
    arm, baseline = [90.0, 110.0, 80.0], [100.0, 120.0, 85.0]
    first = look(results(arm), results(baseline), DESIGN, 0)
    last = look(results(arm * 3), results(baseline * 3), DESIGN, 3)
    assert first is not None
    assert last is not None
    assert (first.stops, last.stops) == (None, "last look")


def test_holm_divides_the_error_among_arms_that_show_no_difference() -> None:
    arms = {"equal": scaled(1.0, 3), "cheaper": scaled(0.8, 3), "too few": results([80.0])}
    looks = look_at_arms(arms, BASELINE[:3], DESIGN, 0)
    assert set(looks) == {"equal", "cheaper"}
    # Three comparisons at first; two after one of them has shown a difference.
    assert looks["cheaper"].level == pytest.approx(DESIGN.levels(3)[0])
    assert looks["equal"].level == pytest.approx(DESIGN.levels(2)[0])
    assert DESIGN.levels(1)[0] > DESIGN.levels(2)[0] > DESIGN.levels(3)[0]


def test_arms_that_stopped_without_a_difference_still_count() -> None:
    [alone] = look_at_arms({"a": scaled(1.0, 5)}, BASELINE[:5], DESIGN, 1).values()
    [later] = look_at_arms({"a": scaled(1.0, 5)}, BASELINE[:5], DESIGN, 1, others=6).values()
    assert (alone.level, later.level) == pytest.approx((DESIGN.levels(1)[1], DESIGN.levels(7)[1]))
    assert later.ratio.low <= alone.ratio.low


GOOD_SCORES = [0.90, 0.91, 0.89, 0.90, 0.905]
POOR_SCORES = [0.80, 0.81, 0.79, 0.80, 0.805]


def look_with_scores(
    ratio: float,
    mine: list[float],
    others: list[float],
    number: int = 0,
    *,
    is_paired: bool = False,
    design: Design = DESIGN,
) -> Look:
    repeats = design.looks[number]
    arm, baseline = (
        [Result(factor * cost, score, repeat=at) for at, (cost, score) in enumerate(zip(COSTS, scores, strict=False))]
        for factor, scores in ((ratio, mine), (1, others))
    )
    result = look(arm[:repeats], baseline[:repeats], design, number, measure=ACCURACY, is_paired=is_paired)
    assert result is not None
    return result


def test_an_arm_that_learns_in_another_way_needs_all_repeats() -> None:
    scores = (GOOD_SCORES * 2)[:9]
    assert [look_with_scores(0.8, scores, scores, number).stops for number in range(4)] == [None, None, None, "cheaper"]
    few = look_with_scores(0.8, scores, scores, design=Design(looks=(3,)))
    assert few.stops == "last look"


def test_seeds_that_were_not_seen_to_diverge_may_still_do_so() -> None:
    quality = look_with_scores(0.8, GOOD_SCORES * 2, GOOD_SCORES * 2, 3).quality
    assert quality is not None
    # 0.7169^9 = 0.05
    assert (quality.seeds, quality.diverging_share) == (9, pytest.approx(1 - 0.7169, abs=1e-4))


def test_a_seed_that_trained_twice_counts_once() -> None:
    twice = [Result(80.0, score, seed=at % 3) for at, score in enumerate(GOOD_SCORES[:3] * 3)]
    quality = look(twice, results(COSTS, (GOOD_SCORES * 2)[:9]), Design(looks=(9,)), 0, measure=ACCURACY)
    assert quality is not None
    assert quality.quality is not None
    assert (quality.quality.seeds, quality.quality.kept) == (3, False)


def test_an_arm_that_always_answers_the_commonest_class_keeps_no_quality() -> None:
    def looked(score: float) -> Look:
        arm, baseline = (
            [Result(ratio * cost, score, repeat=at, commonest=0.97) for at, cost in enumerate(COSTS[:3])]
            for ratio in (0.8, 1)
        )
        result = look(arm, baseline, DESIGN, 0, measure=ACCURACY, is_paired=True)
        assert result is not None
        return result

    assert (looked(0.97).stops, looked(0.99).stops) == (None, "cheaper")


def test_an_arm_whose_quality_is_lost_stops() -> None:
    assert look_with_scores(0.8, POOR_SCORES, GOOD_SCORES).stops == "quality lost"
    assert look_with_scores(1.2, POOR_SCORES, GOOD_SCORES).stops == "dearer"


def test_a_job_without_a_finite_score_loses_the_quality() -> None:
    result = look_with_scores(0.8, [0.9, math.nan, 0.9], GOOD_SCORES)
    assert (result.quality, result.unscored, result.stops) == (None, 1, "quality lost")
    result = look_with_scores(0.8, [0.9, math.nan, 0.9], [0.9, math.nan, 0.9])
    assert (result.quality, result.unscored, result.stops) == (None, 0, "quality not measured")


GOOD, FAILED = Result(80.0), Result(70.0, succeeded=False)


@pytest.mark.parametrize(("failed", "jobs", "others", "jobs_baseline"), [(7, 9, 0, 9), (3, 9, 0, 9), (2, 5, 4, 9)])
def test_the_rates_are_compared_by_fishers_exact_test(failed: int, jobs: int, others: int, jobs_baseline: int) -> None:
    table = [[failed, jobs - failed], [others, jobs_baseline - others]]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert fails_more(failed, jobs, others, jobs_baseline) == pytest.approx(expected)


def test_more_than_a_third_of_failures_is_too_many() -> None:
    assert failure_note([GOOD, GOOD, FAILED], [GOOD] * 3) == ""
    assert failure_note([GOOD] * 3 + [FAILED] * 2, [GOOD] * 5) == "2 of 5 jobs failed, more than a third"


def test_failures_beyond_chance_are_too_many() -> None:
    arm, baseline = [GOOD] * 10 + [FAILED] * 5, [GOOD] * 15
    assert failure_note(arm, baseline) == "5 of 15 jobs failed, against 0 of 15: more than chance explains"
    assert failure_note(arm, arm) == ""
    assert failure_note(baseline, arm) == ""
