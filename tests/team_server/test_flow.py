"""All commands on a team server, by users with the permissions in docs/server.md."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from experiments.running.scheduler import run_jobs
from tests.support.tracking.planned_jobs import planned
from tests.support.tracking.team import Team
from tests.team_server.conftest import Person, runs_of
from tracking.groups.group import open_group
from tracking.server.store import Store
from training.services.local.service import LocalService

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def files(person: Person) -> set[str]:
    """Return the names of all files in a user's report folder."""
    return {path.name for path in (person.folder / "home").glob("reports/*/*")}


@pytest.mark.gate
def test_a_member_trains_compares_and_reports(
    team: Team, person: Callable[..., Person], admin: MlflowClient, script: Path
) -> None:
    ada = person("ada")
    for verb, fields in (("train", {"batch_size": 4}), ("compare", {}), ("report", {})):
        done = ada(verb, {"experiment": script, **fields})
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert f"MLflow: {team.uri}/#/experiments/" in done.stdout
        assert "not on the tracking server" not in done.stdout
    runs = runs_of(admin, script.stem)
    assert [run.info.status for run in runs] == ["FINISHED"] * 5
    assert all([p.step for p in admin.get_metric_history(run.info.run_id, "loss")] == [1, 2, 3] for run in runs)
    groups = runs_of(admin, script.stem, "group")
    assert [group.info.status for group in groups] == ["FINISHED"] * 2
    keys = team.artifacts.keys()
    for group in groups:
        assert any(key.endswith(f"{group.info.run_id}/artifacts/report/report.html") for key in keys)
    for run in runs:
        assert any(key.endswith(f"{run.info.run_id}/artifacts/log.txt") for key in keys)


def test_a_robot_trains_in_its_experiment_and_a_guest_reports_on_it(
    team: Team, person: Callable[..., Person], admin: MlflowClient, script: Path
) -> None:
    robot = person("robot", MLFLOW_EXPERIMENT_NAME="shared")
    done = robot("compare", {"experiment": script})
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert {run.info.status for run in runs_of(admin, "shared")} == {"FINISHED"}
    [group] = runs_of(admin, "shared", "group")
    group_id = group.data.tags["platform.group"]
    before = sorted(team.artifacts.keys())

    guest = person("guest", MLFLOW_EXPERIMENT_NAME="shared")
    read = guest("report", {"group": group_id})
    assert (read.returncode, read.stderr) == (0, "")
    assert "billable seconds" in read.stdout
    assert "Missing:" not in read.stdout
    assert "The report is saved locally but not on the tracking server" in read.stdout
    assert f"'guest' write to the experiment of group '{group_id}' (403): the permission EDIT on it" in read.stdout
    assert {"report.html", "jobs.csv", "summary.json"} <= files(guest)
    whole = guest("report", {"experiment": "shared", "overview": "true"})
    assert (whole.returncode, whole.stderr) == (0, "")
    assert f"{len(runs_of(admin, 'shared'))} jobs took " in whole.stdout
    assert {"overview.html", "groups.csv"} <= files(guest)

    elsewhere = person("robot")("compare", {"experiment": script})
    assert_refused(elsewhere, f"'robot' create experiment '{script.stem}' (403): the right")
    assert admin.get_experiment_by_name(script.stem) is None
    trained = guest("compare", {"experiment": script})
    assert_refused(trained, "'guest' write to experiment 'shared' (403): the permission EDIT")
    assert len(runs_of(admin, "shared", "group")) == 1
    assert not list((guest.folder / "home").glob("jobs/*"))
    assert sorted(team.artifacts.keys()) == before


def assert_refused(done: subprocess.CompletedProcess[str], message: str) -> None:
    assert done.returncode == 1
    assert done.stderr.startswith("error: The tracking server http")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


MESSAGE = f"\0 \ud83d \N{FIRE} \x1b[31m{9000 * 'long '}"
EVENT = {"event": "failure", "seq": 0, "time": 1, "failure_class": "Error", "message": MESSAGE}
FAILING = f"print('trainfare-event', {json.dumps(EVENT)!r})\nraise SystemExit(1)\n"


@pytest.mark.gate
def test_any_failure_text_is_recorded_with_the_cost_of_the_job(admin: MlflowClient, tmp_path: Path) -> None:
    """A group continues after a job whose failure has text that PostgreSQL refuses."""
    store = Store(admin, retry_seconds=20.0)
    group = open_group(store, experiment_name="failure text", verb="compare", key="k")
    jobs = [planned(tmp_path, f"{group.id}-{number}", repeat=number) for number in range(2)]
    (tmp_path / "source" / "train.py").write_text(FAILING)
    outcomes = run_jobs(store, LocalService(tmp_path), group, jobs)
    assert len(outcomes) == 2
    for run in (admin.get_run(outcome.run_id) for outcome in outcomes):
        assert run.info.status == "FAILED"
        assert run.data.metrics["cost/billable_instance_seconds"] > 0
        assert run.data.tags["platform.failure_message"].startswith("\\u0000 ? \N{FIRE} long long")
