"""All commands on a team server, by users with the permissions in docs/server.md."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.support.tracking.team import Team
from tests.team_server.conftest import Person, create_user, runs_of

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
    message = (
        f"does not let user 'guest' write to the experiment of group '{group_id}' (403): the permission EDIT on it"
    )
    assert (
        f"The report is saved locally but not on the tracking server: The tracking server {team.uri} {message}"
        in read.stdout
    )
    assert {"report.html", "jobs.csv", "summary.json"} <= files(guest)
    whole = guest("report", {"experiment": "shared", "overview": "true"})
    assert (whole.returncode, whole.stderr) == (0, "")
    assert f"{len(runs_of(admin, 'shared'))} jobs took " in whole.stdout
    assert {"overview.html", "groups.csv"} <= files(guest)

    elsewhere = person("robot")("compare", {"experiment": script})
    assert_refused(
        elsewhere.returncode, elsewhere.stderr, f"'robot' create experiment '{script.stem}' (403): the right"
    )
    assert admin.get_experiment_by_name(script.stem) is None
    trained = guest("compare", {"experiment": script})
    assert_refused(
        trained.returncode, trained.stderr, "'guest' write to experiment 'shared' (403): the permission EDIT"
    )
    assert len(runs_of(admin, "shared", "group")) == 1
    assert not list((guest.folder / "home").glob("jobs/*"))
    assert sorted(team.artifacts.keys()) == before


def test_a_user_without_permission_is_refused_before_training(
    person: Callable[..., Person], admin: MlflowClient, script: Path
) -> None:
    create_user(admin, "nobody")
    count = len(runs_of(admin, "shared"))
    for name, message in (
        ("shared", "read experiment 'shared' (403): the permission READ on it (EDIT to train in it) is missing"),
        ("fresh", "create experiment 'fresh' (403): the right to create experiments (USE of the workspace) is missing"),
    ):
        nobody = person("nobody", MLFLOW_EXPERIMENT_NAME=name)
        done = nobody("compare", {"experiment": script})
        assert_refused(done.returncode, done.stderr, f"does not let user 'nobody' {message}; an administrator")
        assert not list((nobody.folder / "home").glob("jobs/*"))
    assert len(runs_of(admin, "shared")) == count
    read = nobody("report", {"group": "shared-1"})
    assert read.returncode == 2
    assert (
        read.stderr == f"error: the tracking server {nobody.uri} has no group 'shared-1' that user 'nobody' may read.\n"
    )
    whole = nobody("report", {"experiment": "shared", "overview": "true"})
    assert_refused(whole.returncode, whole.stderr, "does not let user 'nobody' read the experiment (403)")


def assert_refused(returncode: int, stderr: str, message: str) -> None:
    assert returncode == 1
    assert stderr.startswith("error: The tracking server http")
    assert message in stderr
    assert stderr.count("\n") == 1
