"""Work of a job, and its expected cost from earlier jobs, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.planning.costs import JobSize, expected_cost, size_of
from experiments.planning.load import Arm, load, probes
from experiments.planning.plan import job
from tests.support.reports.earlier_jobs import ended_job
from tests.support.requests.building import staged
from tracking.groups.planned_job import PlannedJob, ScriptPlan
from tracking.recorded.recorded_job import Job
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
    two = replace(planned, spec=planned.spec.model_copy(update={"instance_count": 2}))
    expected = expected_cost(two, SIZE, [earlier(planned, 40.0, machine_instance_count="2")])
    assert expected is not None
    assert (expected.seconds, expected.usd) == (pytest.approx(80.0), pytest.approx(80.0))


def test_a_script_agrees_under_the_names_that_it_logs(planned: PlannedJob) -> None:
    script = ScriptPlan(regexes={}, hyperparameters={"batch_size": 32})
    bare = replace(planned, spec=planned.spec.model_copy(update={"hyperparameters": {}}))
    job = replace(planned, spec=planned.spec.model_copy(update={"hyperparameters": {"bs": 32}}), script=script)
    assert expected_cost(job, None, [earlier(bare, 40.0, hp_batch_size="32")]) is not None
    assert expected_cost(job, None, [earlier(bare, 40.0, hp_batch_size="64")]) is None


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


def test_other_settings_say_nothing(planned: PlannedJob) -> None:
    others = {"compiler": "inductor", "instance_type": "ml.g5.xlarge", "machine_devices": "2", "data_key": "other"}
    others |= {"hp_batch_size": "64", "hp_target_stop": "True", "role": "trial", "hp_adapter_method": "lora"}
    for name, text in others.items():
        assert expected_cost(planned, SIZE, [earlier(planned, 40.0, **{name: text})]) is None, name


@pytest.mark.parametrize(
    ("fields", "steps", "samples"),
    [
        # 1,000 rows make 31 batches of 32 and one of 8.
        ({"epochs": "1"}, 32, 1000),
        ({"epochs": "2.5"}, 80, 2512),  # two epochs, and 16 full batches of the third
        ({"epochs": "1", "drop_last": "true"}, 31, 992),
        ({"max_steps": "10"}, 10, 320),
        ({"max_steps": "40"}, 40, 1256),
        # Four batches make a step: 8 steps, of which the last has 104 rows.
        ({"epochs": "1", "gradient_accumulation_steps": "4"}, 8, 1000),
        # 64 rows on two devices: 15 steps of 64 and one of 40.
        ({"epochs": "1", "machine.devices": "2"}, 16, 1000),
    ],
)
def test_steps_and_samples(fields: dict[str, str], steps: int, samples: int, tmp_path: Path) -> None:
    experiment = load("demo", {"batch_size": "32", **fields})
    assert size_of(experiment, staged(tmp_path, "rows", has_model=False)) == JobSize(
        steps=steps, samples=samples, tokens=50 * samples
    )


def test_a_probe_ends_early(tmp_path: Path) -> None:
    # 3 warm-up steps and 25 measured ones, more than a tenth of 32; a tenth of 3,200; the samples that were set.
    for fields, steps in (({"epochs": "1"}, 28), ({"epochs": "100"}, 320), ({"probe.samples": "3200"}, 100)):
        experiment = load("demo", {"batch_size": "32", "epochs": "100", **fields})
        [arm] = probes([Arm(label="none", experiment=experiment, is_baseline=True)])
        size = size_of(arm.experiment, staged(tmp_path, "rows", has_model=False))
        assert size is not None
        assert size.steps == steps
