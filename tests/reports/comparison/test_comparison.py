"""Test each rule of the verdict on hand-made jobs, targets, machines and prices, and the arms of a tracked group."""

from __future__ import annotations

from typing import Any

import pytest

from reports.comparison import messages
from reports.comparison.comparison import Comparison, Contrast, compare
from reports.comparison.report import environment_texts
from reports.comparison.tables import settings_table
from tests.support.reports.verdicts import ACCURACY, arm, job, judged, to_target, with_text
from tracking.queries import job_tables
from tracking.recorded.arms import Arm, Target
from tracking.recorded.recorded_job import EVALUATIONS
from tracking.recorded.waves import measure_of

LOSS = EVALUATIONS["eval_loss"]
BASELINE = arm(100.5, 101.5, 99.5, label="none")
CHEAP = (80.5, 81.5, 79.5)


def compared(mine: Arm, others: Arm) -> Comparison:
    return Comparison("g", (others, mine), (Contrast(mine, judged(mine, others), None, {}),), ACCURACY)


def test_cold_and_warm_repeats_are_not_mixed() -> None:
    mixed = Arm("inductor", (job(150.5, cache="cold"), job(80.5, cache="warm")))
    assert (mixed.cache_state, len(mixed.compared)) == ("warm", 1)
    assert judged(mixed, BASELINE).reason.startswith("“inductor” has 1 successful repeat with a warm cache;")
    more = Arm("inductor", (*mixed.jobs, job(81.5, cache="warm"), job(79.5, cache="warm")))
    assert judged(more, BASELINE).outcome == "cheaper"
    cold = Arm("inductor", (*mixed.jobs, job(151.5, cache="cold")))
    assert (cold.cache_state, [len(jobs) for jobs in cold.other_cache_states.values()]) == ("cold", [1])


def test_without_any_quality_nothing_is_cheaper() -> None:
    nan = float("nan")
    unscored, baseline = (arm(*billed, eval_accuracy=nan) for billed in (CHEAP, (100.5, 101.5, 99.5)))
    verdict = judged(unscored, baseline, None)
    assert (verdict.outcome, verdict.reason) == ("inconclusive", "but no quality is judged")
    assert measure_of(BASELINE.jobs) == ACCURACY
    assert measure_of(arm(1, eval_accuracy=nan).jobs + arm(1, eval_accuracy=nan, eval_loss=0.5).jobs) == LOSS
    assert measure_of(unscored.jobs) is None


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("data_key", "other", "the data differs (k, other)"),
        (
            "instance_type",
            "ml.p3.2xlarge",
            "the instance type differs (local, ml.p3.2xlarge) and not every job has a price",
        ),
    ],
)
def test_unequal_work_is_not_judged(column: str, value: str, reason: str) -> None:
    comparison = compared(with_text(arm(*CHEAP), **{column: value}), BASELINE)
    [contrast] = comparison.contrasts
    assert (contrast.verdict.outcome, contrast.verdict.reason, contrast.verdict.ratio) == (
        "not comparable",
        reason,
        None,
    )
    assert messages.headline(comparison) == "No verdict: the settings did not do the same work."
    assert messages.verdict_sentence(contrast, BASELINE) == f"T{reason[1:]}."


def test_scripts_without_samples_are_assumed_to_do_equal_work() -> None:
    def script(of: Arm) -> Arm:
        return with_text(of, measured="outside")

    unrecorded = [script(arm(*billed, samples=float("nan"))) for billed in (CHEAP, (100.5, 101.5, 99.5))]
    assert judged(*unrecorded).outcome == "cheaper"
    assert judged(unrecorded[0], script(BASELINE)).reason == ("some jobs did not record how many samples they saw")
    assert judged(script(arm(*CHEAP, samples=1000.0)), script(BASELINE)).outcome == "not comparable"


TO_TARGET = to_target("none", 100.5, 101.5, 99.5)


def test_fewer_seconds_to_the_target_are_cheaper_regardless_of_samples_and_quality() -> None:
    """80.5 s against 100.5 s is 20 % fewer, although the arm saw twice the samples."""
    comparison = compared(to_target("inductor", *CHEAP, samples=4000.0, eval_accuracy=0.1), TO_TARGET)
    [contrast] = comparison.contrasts
    verdict = contrast.verdict
    assert (verdict.outcome, verdict.target, verdict.quality) == ("cheaper", Target("eval_loss", "0.45"), None)
    answer = "20 % fewer billable seconds to eval_loss 0.45 than “none”"
    assert messages.headline(comparison) == f"“inductor” is cheaper: {answer}."
    assert messages.verdict_sentence(contrast, TO_TARGET).startswith(f"{answer} (95 % interval: ")


@pytest.mark.parametrize("reached", [0, 3])
def test_a_baseline_that_misses_the_target_is_inconclusive(reached: int) -> None:
    baseline = to_target("none", 100.5, 101.5, 99.5, reached=2)
    verdict = judged(to_target("inductor", 50.5, 51.5, 49.5, reached=reached), baseline)
    assert (verdict.outcome, verdict.reason) == ("inconclusive", "1 of 3 jobs of “none” did not reach eval_loss 0.45")


def on_machine(label: str, seconds: list[int], usd_per_hour: float | None, count: int = 1, **text: str) -> Arm:
    """Return an arm whose jobs were each billed these whole seconds, as SageMaker bills them."""
    tags = {"device": f"1 x {label}", "instance_type": label, "machine_instance_count": str(count), **text}
    prices = {} if usd_per_hour is None else {"cost_usd": count * usd_per_hour / 3600}
    jobs = [
        job(float(each * count), cost_billable_seconds=float(each), **{name: each * v for name, v in prices.items()})
        for each in seconds
    ]
    return with_text(Arm(label, tuple(jobs)), **tags)


SMALL = on_machine("ml.g4dn.xlarge", [1000, 1010, 990], 0.736)


@pytest.mark.parametrize(
    ("large", "outcome", "ratio", "sentence"),
    [
        # 400 s at 1.408 USD per hour cost 0.156 USD; 1,000 s at 0.736 cost 0.204: 23.5 % fewer dollars.
        (
            on_machine("ml.g5.xlarge", [400, 404, 396], 1.408),
            "cheaper",
            400 * 1.408 / (1000 * 0.736),
            "It takes 0.40 times as long: 400 s against 1,000 s, at 0.77 times the cost.",
        ),
        # A tenth of the time at twice the cost, as published for BERT large on sixteen devices.
        (
            on_machine("ml.p4d.24xlarge", [100, 101, 99], 14.72),
            "not cheaper",
            2.0,
            "It takes 0.10 times as long: 100 s against 1,000 s, at 2.00 times the cost.",
        ),
        # Twice 600 s are 1,200 instance seconds against 1,000, and no price is needed.
        (
            on_machine("ml.g4dn.xlarge", [600, 606, 594], None, count=2, device="2 x T4"),
            "not cheaper",
            1.2,
            "It takes 0.60 times as long: 600 s against 1,000 s, at 1.20 times the cost.",
        ),
    ],
)
def test_machines_are_compared_by_price_and_reported_with_their_time(
    large: Arm, outcome: str, ratio: float, sentence: str
) -> None:
    verdict = judged(large, SMALL)
    assert verdict.outcome == outcome
    assert verdict.ratio is not None
    assert verdict.ratio.estimate == pytest.approx(ratio, rel=1e-3)
    assert messages.time_sentences(large, SMALL) == [sentence]


def labels_of(comparison: Comparison) -> list[str]:
    table = settings_table(comparison)
    assert table
    return [heading.label for heading in table.headings]


def test_costs_in_dollars_are_shown_with_their_price() -> None:
    price = {"price_usd_per_hour": "1.408", "price_source": "AWS", "price_date": "2026-02-01"}
    large = on_machine("ml.g5.xlarge", [400, 404, 396], 1.408, **price)
    comparison = compared(large, SMALL)
    assert messages.headline(comparison) == "“ml.g5.xlarge” is cheaper: 23 % fewer dollars than “ml.g4dn.xlarge”."
    assert "cost" in labels_of(comparison)
    assert environment_texts(large.jobs, {})["Price"] == "1.408 USD per hour of ml.g5.xlarge (AWS, 2026-02-01)"
    unpriced = on_machine("local", [10], None)
    assert "Price" not in environment_texts(unpriced.jobs, {})
    assert "cost" not in labels_of(Comparison("g", (unpriced,), (), None))


def test_what_is_probably_not_meant_in_the_data_is_in_the_report() -> None:
    notes = "12 of 12 validation rows are also training rows"
    jobs = [with_text(arm(*CHEAP), data_notes=notes), with_text(BASELINE, data_notes=notes)]
    sentences = messages.caveat_sentences(compared(*jobs))
    assert sentences.count(f"Data: {notes}.") == 1
    assert "Data:" not in " ".join(messages.caveat_sentences(compared(arm(*CHEAP), BASELINE)))


def comparison_of(tracked: Any) -> Comparison:
    return compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)


def test_a_tracked_comparison_with_a_cold_and_a_failed_job(tracked: Any) -> None:
    """Three baseline jobs, and a compiled arm that started first, with one cold, three warm and one failed job."""
    warm, cold = {"platform.cache_state": "warm"}, {"platform.cache_state": "cold"}
    slow = {"time/compile_seconds": 0.0, "time/warmup_seconds": 10.0}
    tuned = {"time/compile_seconds": 69.0, "compile/autotuned": 12}
    tracked.trained("inductor", 0, 130.5, 200.0, tags=cold, metrics=tuned)
    for repeat in range(3):
        tracked.trained("none", repeat, 100.5 + repeat, 100.0, baseline=True, metrics=slow)
    for repeat in range(1, 4):
        tracked.trained("inductor", repeat, 79.5 + repeat, 200.0, tags=warm, metrics={"time/compile_seconds": 39.0})
    params = {"hp.batch_size": 16, "hp.learning_rate": 5e-5}
    tracked.job("inductor", 4, status="FAILED", metrics={"cost/billable_instance_seconds": 7.0}, params=params)
    comparison = comparison_of(tracked)
    assert [arm.label for arm in comparison.arms] == ["none", "inductor"]
    [contrast] = comparison.contrasts
    assert contrast.verdict.outcome == "cheaper"
    assert comparison.best is contrast
    assert contrast.verdict.ratio is not None
    assert (contrast.verdict.ratio.n_arm, contrast.verdict.ratio.n_baseline) == (3, 3)
    # 130.5 against the mean of 80.5, 81.5, 82.5
    assert messages.cache_sentences(contrast.arm) == [
        "1 job autotuned and compiled kernels for 69.0 s; the compile cache keeps them.",
        "Tables and charts show the 3 jobs with a warm cache, not 1 job with a cold cache (49.0 s more on average).",
    ]
    # C is 40 s warm and 70 s cold against 10 s; each sample saves 1/100 - 1/200 s.
    points = contrast.break_evens
    assert list(points) == ["warm", "cold"]
    assert (points["warm"].samples, points["warm"].minutes) == (pytest.approx(6_000), pytest.approx(70 / 60))
    assert (points["cold"].samples, points["cold"].minutes) == (pytest.approx(12_000), pytest.approx(130 / 60))
    # 100.5 + 101.5 + 102.5 + 130.5 + 80.5 + 81.5 + 82.5 + 7
    assert comparison.billable_instance_seconds == pytest.approx(686.5)
    assert messages.cost_sentence(comparison) == (
        "8 jobs took 686 billable instance seconds in all, 7.00 of them in 1 failed job."
    )


def test_samples_of_the_warm_up_are_work(tracked: Any) -> None:
    """18 s of steady steps at 100 samples per second train 1,800 of 2,000 samples. The other 200 took 2 s.

    A resumed job counts the samples of its earlier attempts too: no more than the warm-up itself is work.
    """
    times = {"time/compile_seconds": 7.0, "time/warmup_seconds": 5.0}
    tracked.trained("none", 0, 40.0, metrics={**times, "time/train_steady_seconds": 18.0})
    tracked.trained("none", 1, 40.0, metrics={**times, "time/train_steady_seconds": 8.0})
    tracked.trained("none", 2, 40.0, metrics=times)
    jobs = comparison_of(tracked).arms[0].jobs
    assert [job.setup_seconds for job in jobs] == [12.0] * 3
    assert [job.setup_beyond_steady_seconds for job in jobs] == pytest.approx([10.0, 7.0, 12.0])
