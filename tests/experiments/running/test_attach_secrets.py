"""Test that attach starts no job of a script without its secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.planning.arms import Arm
from experiments.planning.load import load
from experiments.planning.plan import job
from experiments.running.attach_group import check_secrets
from tests.support.requests.building import staged
from tracking.groups.planned_job import PlannedJob, ScriptPlan
from training.contract.errors import InputError

VARIABLE = "TRAINFARE_SECRET_VARIABLES"


@pytest.fixture
def planned(tmp_path: Path) -> PlannedJob:
    """A job of a script that reads two secrets."""
    arm = Arm(label="none", experiment=load("demo", {}), is_baseline=True)
    made = job("study-a0r0", "study", arm, 0, staged(tmp_path, "rows", has_model=False), tmp_path)
    spec = made.spec.model_copy(update={"environment": {VARIABLE: "TOKEN,OTHER"}})
    return replace(made, spec=spec, script=ScriptPlan(regexes={}, hyperparameters={}))


def test_a_job_that_has_not_started_needs_its_secrets(planned: PlannedJob) -> None:
    check_secrets([planned], set(), {"TOKEN": "a", "OTHER": "b"})
    with pytest.raises(InputError, match="need the environment variable OTHER, a secret of their script"):
        check_secrets([planned], set(), {"TOKEN": "a", "OTHER": " "})


def test_started_jobs_and_our_own_tasks_need_none(planned: PlannedJob) -> None:
    check_secrets([planned], {"study-a0r0"}, {})
    check_secrets([replace(planned, script=None)], set(), {})
