"""Expected cost of a plan in words, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.dry_runs.plan_jobs import search_plan
from experiments.dry_runs.text import cost_definitions, json_text
from experiments.planning.arms import Arm
from experiments.planning.command_plan import CommandPlan, JobEntry
from experiments.planning.expected_cost import ExpectedCost
from experiments.planning.load import load
from experiments.planning.plan import job
from experiments.sweeping.sweep_plan import plan_sweep
from tests.support.requests.building import staged


@pytest.fixture
def entry(tmp_path: Path) -> JobEntry:
    """A job with a time limit of 100 s, expected to take 60 s."""
    arm = Arm(label="none", experiment=load("demo", {"machine.max_run_seconds": "100"}), is_baseline=True)
    planned = job("demo-a0r0", "demo", arm, 0, staged(tmp_path, "rows", has_model=False), tmp_path)
    return JobEntry(
        planned=planned,
        experiment=arm.experiment,
        size=None,
        expected=ExpectedCost(seconds=60.0, usd=None, source="2 earlier jobs of this setting"),
        request={},
    )


def with_role(entry: JobEntry, role: str, seconds: float | None) -> JobEntry:
    cost = None if seconds is None else ExpectedCost(seconds=seconds, usd=seconds / 60, source="2 probes")
    planned = replace(entry.planned, tags={**entry.planned.tags, "platform.role": role})
    return replace(entry, planned=planned, expected=cost)


def texts(plan: CommandPlan) -> dict[str, str]:
    return {each.term: each.text for each in cost_definitions(plan)}


def test_a_job_that_nearly_reaches_its_limit_is_a_warning(entry: JobEntry) -> None:
    assert "Warning" not in texts(CommandPlan(verb="train", name="demo", jobs=(entry,)))
    assert entry.expected is not None
    slow = replace(entry, expected=replace(entry.expected, seconds=90.0))
    assert texts(CommandPlan(verb="train", name="demo", jobs=(entry, slow, slow)))["Warning"] == (
        "none: the expected time is close to machine.max_run_seconds (100 s) or above it, and a job that reaches it "
        "is stopped"
    )


def test_a_limit_is_that_of_each_instance(entry: JobEntry) -> None:
    """120 instance seconds on two instances are 60 s."""
    assert entry.expected is not None
    planned = replace(entry.planned, spec=entry.planned.spec.model_copy(update={"instance_count": 2}))
    double = replace(entry, planned=planned, expected=replace(entry.expected, seconds=120.0))
    assert "Warning" not in texts(CommandPlan(verb="train", name="demo", jobs=(double,)))


def test_a_sweep_costs_as_much_as_its_first_trainings(entry: JobEntry) -> None:
    """Trainings of 60 s and 120 s: 90 s and 1.50 USD each."""
    search = search_plan(plan_sweep(load("demo", {"sweep.batch_sizes": "8..32", "sweep.worse_by": "0.1"})))
    jobs = (with_role(entry, "calibration", None), with_role(entry, "trial", 60.0), with_role(entry, "trial", 120.0))
    plan = CommandPlan(verb="sweep", name="demo", jobs=jobs, search=search)
    trainings = search.max_jobs - 1
    lines = texts(plan)["Expected"].splitlines()
    assert lines[0].endswith(f" for all {trainings} training runs, if none is skipped")
    assert f"{trainings * 1.5:.2f} USD" in lines[0]
    assert lines[1:] == [
        "and each takes as long as the first one with the same compiler setting",
        "1 calibration not included",
        "from 2 probes",
    ]
    assert f'"seconds": {trainings * 90.0}' in json_text(plan)
    unknown = replace(plan, jobs=(*jobs, with_role(entry, "trial", None)))
    assert texts(unknown)["Expected"].startswith("unknown: ")
