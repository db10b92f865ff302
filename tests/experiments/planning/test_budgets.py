"""Worst cases of planned jobs, worked out by hand: each job has 1000 s, and 150 s for its stop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.planning.costs import GroupBudget, check_budget, worst_case_of, worst_case_of_job
from tests.support.tracking.planned_jobs import planned
from tracking.groups.planned_job import AGAIN, PlannedJob
from training.contract.price import Price
from training.services.budget import Budget

PRICE = Price(usd_per_hour=3.6, source="table", date="2026-11-01")  # 0.001 USD a second
DEARER = Price(usd_per_hour=7.2, source="table", date="2026-11-01")


@pytest.fixture
def jobs(tmp_path: Path) -> list[PlannedJob]:
    """Return three repeats of two arms; one has two instances. Each job may run again."""
    first = [job(tmp_path, f"a{arm}r{repeat}", arm, repeat) for repeat in range(3) for arm in range(2)]
    return [*first, *(replace(each, tags={"platform.role": AGAIN}) for each in first)]


def job(tmp_path: Path, name: str, arm: int, repeat: int) -> PlannedJob:
    one = planned(tmp_path, name, repeat)
    fields = {"instance_type": "ml.g5.xlarge", "instance_count": arm + 1, "max_run_seconds": 1000}
    return replace(one, arm=f"arm {arm}", price=PRICE, spec=one.spec.model_copy(update=fields))


def test_repeats_and_disturbed_jobs_count(jobs: list[PlannedJob]) -> None:
    """Each arm has six jobs: 6 x 1150 s, and 6 x 2300 s on two instances."""
    worst = worst_case_of(jobs)
    assert (worst.jobs, worst.again) == (6, 6)
    assert worst.amount.seconds == 6 * 1150 + 6 * 2300
    assert worst.amount.usd == pytest.approx(20.7)


def test_a_job_without_checkpoints_that_the_budget_may_end_keeps_nothing(tmp_path: Path) -> None:
    sentence = "A job that its limit ends keeps nothing: save_strategy would keep checkpoints."
    one = job(tmp_path, "a", 0, 0)
    kept = replace(one, spec=one.spec.model_copy(update={"checkpoint_uri": "s3://bucket/checkpoints"}))
    # A job may take 1150 s.
    for seconds, jobs, is_said in (
        (500, [one], True),
        (500, [kept, one], True),
        (500, [kept], False),
        (2000, [one], False),
    ):
        budget = GroupBudget(budget=Budget(max_billable_seconds=seconds))
        assert (sentence in check_budget(jobs, budget)) is is_said


def test_the_dearest_fallback_counts(tmp_path: Path) -> None:
    one = job(tmp_path, "a", 0, 0)
    fallback = replace(one, spec=one.spec.model_copy(update={"fallback_instance_types": ("ml.p3.2xlarge",)}))
    assert worst_case_of_job(replace(fallback, fallback_prices={"ml.p3.2xlarge": DEARER})).usd == pytest.approx(2.3)
    assert worst_case_of_job(fallback).usd is None
