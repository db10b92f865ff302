"""Expected cost of a job from earlier jobs, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.planning.arms import Arm
from experiments.planning.expected_cost import JobSize, expected_cost
from experiments.planning.load import load
from experiments.planning.plan import job
from reports.comparison.arms import Job
from tests.support.reports.earlier_jobs import ended_job
from tests.support.requests.building import staged
from tracking.groups.planned_job import PlannedJob
from training.contract.price import Price

SIZE = JobSize(steps=32, samples=1000, tokens=50_000)


@pytest.fixture
def planned(tmp_path: Path) -> PlannedJob:
    """A job at 3,600 USD per hour, a dollar a second."""
    arm = Arm(label="none", experiment=load("demo", {}), is_baseline=True)
    made = job("demo-a0r0", "demo", arm, 0, staged(tmp_path, "rows", has_model=False), tmp_path)
    return replace(made, price=Price(usd_per_hour=3600.0, source="table", date="2026-11-01"))


def earlier(planned: PlannedJob, seconds: float, **changes: Any) -> Job:
    text = {"instance_type": "local", "hp_precision": "fp32"}
    text |= {name: value for name, value in changes.items() if isinstance(value, str)}
    numbers = {name: value for name, value in changes.items() if isinstance(value, float)}
    return ended_job(planned, text, {"cost_billable_seconds": seconds, **numbers})


def test_equal_jobs_count_first(planned: PlannedJob) -> None:
    jobs = [
        earlier(planned, 40.0, hp_seed="7"),
        earlier(planned, 90.0, hp_seed="8"),
        earlier(planned, 1.0, hp_epochs="9"),
    ]
    expected = expected_cost(planned, SIZE, jobs)
    assert expected is not None
    assert (expected.seconds, expected.usd) == (pytest.approx(60.0), pytest.approx(60.0))  # the geometric mean
    assert expected.source == "2 earlier jobs of this setting"


def test_a_probe_projects_the_whole_training(planned: PlannedJob) -> None:
    probe = earlier(planned, 5.0, hp_probe_precision="0.05", projected_billable_seconds=300.0)
    expected = expected_cost(planned, SIZE, [probe])
    assert expected is not None
    assert (expected.seconds, expected.source) == (pytest.approx(300.0), "1 probe of this setting")


def test_similar_jobs_are_scaled_to_the_samples(planned: PlannedJob) -> None:
    """100 s, of which 60 s at 50 samples/s: 1,000 samples take 20 s, and the other 40 s stay."""
    similar = earlier(
        planned,
        100.0,
        hp_epochs="5",
        throughput_steady_samples_per_second=50.0,
        time_train_steady_seconds=60.0,
    )
    expected = expected_cost(planned, SIZE, [similar])
    assert expected is not None
    assert (expected.seconds, expected.source) == (pytest.approx(60.0), "1 similar job, scaled to the samples")


@pytest.mark.parametrize(
    "changes",
    [
        {"compiler": "inductor"},
        {"instance_type": "ml.g5.xlarge"},
        {"job_devices": "2"},
        {"data_key": "other"},
        {"hp_batch_size": "64"},
        {"hp_target_stop": "True"},
        {"role": "trial"},
    ],
)
def test_other_settings_say_nothing(planned: PlannedJob, changes: dict[str, str]) -> None:
    assert expected_cost(planned, SIZE, [earlier(planned, 40.0, **changes)]) is None


def test_several_instances_are_counted(planned: PlannedJob) -> None:
    two = replace(planned, spec=planned.spec.model_copy(update={"instance_count": 2}))
    expected = expected_cost(two, SIZE, [earlier(planned, 40.0, job_instance_count="2")])
    assert expected is not None
    assert (expected.seconds, expected.usd) == (pytest.approx(80.0), pytest.approx(80.0))
