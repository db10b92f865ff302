"""Planned trainings on spot capacity, from earlier jobs, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from experiments.dry_runs.command_plan import CommandPlan, JobEntry, cost_definitions, summary
from experiments.dry_runs.dry_run import FROM_LOG, planned_costs, quality_text
from experiments.planning.costs import JobSize
from experiments.planning.load import Arm, Experiment, load
from experiments.planning.plan import group_key, job
from tests.support.reports.earlier_jobs import ended_job
from tests.support.requests.building import staged
from tracking.groups.planned_job import PlannedJob
from tracking.recorded.recorded_job import Job
from training.contract.price import Price
from training.staging.tokens.staged import Staged

RATE = 36 * math.log(2)
"""Interruptions per hour at which half of all runs of 100 s are interrupted."""
SIZE = JobSize(steps=180, samples=1000, tokens=50_000)
FIELDS = {
    "service": "sagemaker",
    "machine.instance_type": "ml.g5.xlarge",
    "machine.interruptions_per_hour": str(RATE),
    "save_strategy": "steps",
    "save_steps": "90",
}


@dataclass(frozen=True)
class Planned:
    """A job at a dollar a second, and what it was planned from."""

    job: PlannedJob
    experiment: Experiment
    inputs: Staged

    def costs(self, *earlier: Job) -> tuple[float | None, float | None, float | None]:
        """Return the expected seconds and dollars of the job, and the dollars on spot capacity."""
        expected, spot = planned_costs(self.job, self.experiment, self.inputs, SIZE, earlier)
        return expected and expected.seconds, expected and expected.usd, spot and spot.spot.usd

    def earlier(self, *, seconds: float = 300.0, saved_percent: float = math.nan) -> Job:
        """An earlier job: start-up 100 s, two checkpoints of 10 s."""
        numbers = {"cost_billable_seconds": seconds, "time_load_seconds": 70.0, "time_download_seconds": 30.0}
        numbers |= {"time_seconds_per_checkpoint": 10.0, "cost_spot_savings_percent": saved_percent}
        return ended_job(self.job, {"instance_type": "ml.g5.xlarge"}, numbers)


def planned(folder: Path, **changes: str) -> Planned:
    experiment = load("demo", {**FIELDS, **{name.replace("__", "."): value for name, value in changes.items()}})
    inputs = staged(folder, "rows", has_model=False)
    made = job("demo-a0r0", "demo", Arm(label="none", experiment=experiment, is_baseline=True), 0, inputs, folder)
    return Planned(replace(made, price=Price(usd_per_hour=3600.0, source="t", date="2026-11-01")), experiment, inputs)


def test_a_job_on_demand_shows_what_spot_would_cost(tmp_path: Path) -> None:
    """See tests/reports/probe/test_spot.py: 721.35 s on spot, at 0.3 dollars a second."""
    on_demand = planned(tmp_path, machine__spot_discount_percent="70")
    seconds, usd, on_spot = on_demand.costs(on_demand.earlier())
    assert (seconds, usd) == (pytest.approx(300.0), pytest.approx(300.0))
    assert on_spot == pytest.approx(216.4043, abs=1e-4)


def test_a_spot_job_is_expected_to_cost_its_estimate(tmp_path: Path) -> None:
    spot = planned(tmp_path, machine__spot="true", machine__spot_discount_percent="70")
    seconds, usd, on_spot = spot.costs(spot.earlier())
    assert seconds == usd == on_spot == pytest.approx(216.4043, abs=1e-4)
    unknown = planned(tmp_path, machine__spot="true")
    assert unknown.costs(unknown.earlier()) == (pytest.approx(721.3475, abs=1e-4), None, None)


def test_the_discount_of_an_earlier_spot_job_counts_once(tmp_path: Path) -> None:
    """It was billed 90 s for 300 s. On demand, the next job is billed 300 s."""
    on_demand = planned(tmp_path)
    seconds, _, on_spot = on_demand.costs(on_demand.earlier(seconds=90.0, saved_percent=70.0))
    assert seconds == pytest.approx(300.0)
    assert on_spot == pytest.approx(216.4043, abs=1e-4)


def test_without_an_earlier_job_nothing_is_known(tmp_path: Path) -> None:
    assert planned(tmp_path).costs() == (None, None, None)


def test_the_plan_shows_the_estimate(tmp_path: Path) -> None:
    made = planned(tmp_path, machine__spot_discount_percent="70")
    expected, spot = planned_costs(made.job, made.experiment, made.inputs, SIZE, [made.earlier()])
    entry = JobEntry(
        planned=made.job,
        experiment=made.experiment,
        size=SIZE,
        expected=expected,
        request={},
        spot=spot,
    )
    plan = CommandPlan(verb="train", name="demo", jobs=(entry, entry))
    [text] = [each.text for each in cost_definitions(plan) if each.term == "On spot"]
    assert text.splitlines()[0] == (
        "is expected to take 721 s and cost 216.40 USD, with 5.00 interruptions at 24.9533 interruptions per hour and "
        "instance; on demand 300 s and 300.00 USD"
    )
    assert (summary(plan))["jobs"][0]["spot"]["spot"]["save_steps"] == 90


def test_the_terms_do_not_change_the_jobs(tmp_path: Path) -> None:
    """A command with another rate resumes the same open group."""
    keys = set()
    for changes in ({}, {"machine__interruptions_per_hour": "1"}, {"machine__spot_discount_percent": "60"}):
        made = planned(tmp_path, **changes)
        arm = Arm(label="none", experiment=made.experiment, is_baseline=True)
        keys.add(group_key("train", "demo", [arm], 1, [made.inputs]))
    assert len(keys) == 1


SCRIPT = """
script: {source: here, entry_point: train.py, metrics: METRICS}
"""


@pytest.mark.parametrize(
    ("task", "margin", "text"),
    [
        ("demo", 0.01, "accuracy; a cheaper arm may be worse by at most 0.01 (compare.quality_margin)"),
        ("squad-minilm", None, "F1 (%); a cheaper arm may be worse by at most 3"),
        ("sst2-gpt2", None, "validation loss; a cheaper arm may be worse by at most 5 % of the baseline's value"),
    ],
)
def test_a_task_has_its_measure(task: str, margin: float | None, text: str) -> None:
    assert quality_text(load(task, {}), margin) == text


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ("{}", FROM_LOG),
        (
            "{f1: {pattern: 'f1 ([0-9.]+)', better: higher}}",
            "f1, but its unit is not declared: add unit: fraction, percent or number to script.metrics",
        ),
    ],
)
def test_a_script_has_the_measure_that_it_declares(metrics: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SCRIPT.replace("METRICS", metrics))
    assert quality_text(load(str(file), {}), None) == text
