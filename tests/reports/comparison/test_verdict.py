"""Test each rule of the verdict on hand-made jobs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from judging.quality import MEASURES
from reports.comparison.arms import Arm, Job
from reports.comparison.comparison import judge
from reports.comparison.equal_work import work_differences
from reports.comparison.looks import measure_of
from tests.support.reports.verdicts import ACCURACY, arm, descriptions, job

LOSS = next(measure for measure in MEASURES if measure.column == "eval_loss")


def scored(column: str, billed: Sequence[float], values: Sequence[float]) -> Arm:
    return Arm("inductor", tuple(job(p, **{column: v}) for p, v in zip(billed, values, strict=True)))


BASELINE = arm(100.5, 101.5, 99.5, label="none")
CHEAP = (80.5, 81.5, 79.5)


def test_the_same_whole_seconds_are_inconclusive() -> None:
    assert judge(arm(40, 40), arm(40, 40, label="none"), ACCURACY).outcome == "inconclusive"
    assert judge(arm(40, 40), arm(41, 41, label="none"), ACCURACY).outcome == "inconclusive"


def test_cold_and_warm_repeats_are_not_mixed() -> None:
    mixed = Arm("inductor", (job(150.5, cache="cold"), job(80.5, cache="warm")))
    assert (mixed.cache_state, len(mixed.compared)) == ("warm", 1)
    assert judge(mixed, BASELINE, ACCURACY).reason.startswith("“inductor” has 1 successful repeat with a warm cache;")
    more = Arm("inductor", (*mixed.jobs, job(81.5, cache="warm"), job(79.5, cache="warm")))
    assert judge(more, BASELINE, ACCURACY).outcome == "cheaper"


def test_the_most_common_cache_state_represents_the_arm() -> None:
    cold = Arm("inductor", (job(150.5, cache="cold"), job(151.5, cache="cold"), job(80.5, cache="warm")))
    assert cold.cache_state == "cold"
    assert [len(jobs) for jobs in cold.other_cache_states.values()] == [1]


def test_quality_below_the_tolerance_within_the_noise_may_be_worse() -> None:
    noisy = scored("eval_accuracy", CHEAP, [0.95, 0.80, 0.86])
    verdict = judge(noisy, BASELINE, ACCURACY)
    assert (verdict.outcome, verdict.reason[:34]) == ("inconclusive", "but the accuracy may be worse: run")


def test_quality_within_the_tolerance_is_kept() -> None:
    assert judge(scored("eval_accuracy", CHEAP, [0.891, 0.892, 0.893]), BASELINE, ACCURACY).outcome == "cheaper"


def test_a_loss_is_worse_when_higher_by_more_than_two_percent() -> None:
    baseline = arm(100.5, 101.5, 99.5, label="none", eval_loss=0.5)
    assert judge(arm(*CHEAP, eval_loss=0.509), baseline, LOSS).outcome == "cheaper"
    assert judge(arm(*CHEAP, eval_loss=0.511), baseline, LOSS).outcome == "inconclusive"
    assert judge(arm(*CHEAP, eval_loss=0.3), baseline, LOSS).outcome == "cheaper"


def test_a_loss_that_is_not_a_number_is_not_kept() -> None:
    baseline = arm(100.5, 101.5, 99.5, label="none", eval_loss=0.5)
    verdict = judge(scored("eval_loss", CHEAP, [0.4, float("nan"), 0.4]), baseline, LOSS)
    assert (verdict.outcome, verdict.reason) == ("inconclusive", "but 1 of 6 jobs have no finite validation loss")


def test_without_any_quality_nothing_is_cheaper() -> None:
    verdict = judge(arm(*CHEAP), BASELINE, None)
    assert (verdict.outcome, verdict.reason) == ("inconclusive", "but no quality was measured")


def test_the_measure_is_the_first_that_any_job_has() -> None:
    nan = float("nan")
    assert measure_of(BASELINE.jobs) == ACCURACY
    assert measure_of(arm(1, eval_accuracy=nan).jobs + arm(1, eval_accuracy=nan, eval_loss=0.5).jobs) == LOSS
    assert measure_of(arm(1, eval_accuracy=nan).jobs) is None


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("device", "gpu", "the device differs (cpu, gpu)"),
        ("data_key", "other", "the data differs (k, other)"),
        (
            "instance_type",
            "ml.p3.2xlarge",
            "the instance type differs (local, ml.p3.2xlarge) and not every job has a price",
        ),
    ],
)
def test_unequal_work_is_not_judged(column: str, value: str, reason: str) -> None:
    other = Arm("x", tuple(Job(**{**vars(j), "text": {**j.text, column: value}}) for j in arm(*CHEAP).jobs))
    verdict = judge(other, BASELINE, ACCURACY)
    assert (verdict.outcome, verdict.reason, verdict.ratio) == ("not comparable", reason, None)


def test_the_jobs_of_one_arm_have_one_precision() -> None:
    def with_precisions(*precisions: str) -> Arm:
        jobs = zip(arm(*CHEAP).jobs, precisions, strict=True)
        return Arm("x", tuple(replace(each, text={**each.text, "hp_precision": precision}) for each, precision in jobs))

    mixed = work_differences(with_precisions("bf16", "bf16", "fp32"), BASELINE)
    assert descriptions(mixed) == ["the precision differs (bf16, fp32)"]
    # Two arms may compare precisions.
    assert work_differences(with_precisions("bf16", "bf16", "bf16"), BASELINE) == []


def test_equal_samples_are_equal_within_one_percent() -> None:
    assert descriptions(work_differences(arm(*CHEAP, samples=1984.0), BASELINE)) == []
    differences = work_differences(arm(*CHEAP, samples=1000.0), BASELINE)
    assert descriptions(differences) == ["the samples seen differ (1,000 to 2,000)"]
    assert descriptions(work_differences(arm(*CHEAP, samples=float("nan")), BASELINE)) == [
        "some jobs did not record how many samples they saw"
    ]


def test_scripts_without_samples_are_assumed_to_do_equal_work() -> None:
    def script(arm: Arm) -> Arm:
        return Arm(arm.label, tuple(Job(**{**vars(j), "text": {**j.text, "measured": "outside"}}) for j in arm.jobs))

    unrecorded = [script(arm(*billed, samples=float("nan"))) for billed in (CHEAP, (100.5, 101.5, 99.5))]
    assert judge(*unrecorded, ACCURACY).outcome == "cheaper"
    recorded = [script(arm(*CHEAP)), script(BASELINE)]
    assert judge(unrecorded[0], recorded[1], ACCURACY).reason == "some jobs did not record how many samples they saw"
    assert judge(script(arm(*CHEAP, samples=1000.0)), recorded[1], ACCURACY).outcome == "not comparable"


class CountedJobs(tuple[Job, ...]):
    """Jobs that count how often they are read from the first to the last."""

    reads: int

    def __iter__(self) -> Iterator[Job]:
        self.reads = getattr(self, "reads", 0) + 1
        return super().__iter__()


def test_more_repeats_do_not_read_all_jobs_more_often() -> None:
    reads = []
    for repeats in (10, 100):
        jobs = CountedJobs(arm(*(80.5 + 0.01 * repeat for repeat in range(repeats))).jobs)
        judge(Arm("inductor", jobs), BASELINE, ACCURACY)
        reads.append(jobs.reads)
    assert reads[0] == reads[1]
