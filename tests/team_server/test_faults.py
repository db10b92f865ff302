"""Reports with missing runs, missing files or without a server: always a page, never a traceback."""

from __future__ import annotations

import io
import math
import secrets
from pathlib import Path

import pytest
from mlflow import MlflowClient

from experiments.__main__ import main
from reports.formats.html import html_page
from reports.formats.terminal import print_report
from reports.formats.text import markdown, summary
from reports.model.report import Report
from reports.render import render
from tests.support.reports.page import Page
from tests.support.tracking.team import Team
from tests.support.tracking.tracked import Tracked
from tests.team_server.conftest import administer, create_user

NAN, INFINITE = math.nan, math.inf


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in the test's folder, where SQLite stores the artifacts."""
    monkeypatch.chdir(tmp_path)


def group_on(client: MlflowClient, verb: str = "compare") -> Tracked:
    """Return an empty group with its parent run, in a separate experiment."""
    name = f"faults-{secrets.token_hex(4)}"
    tracked = Tracked(client, str(client.create_experiment(name)))
    tracked.group = name
    tags = {"platform.kind": "group", "platform.group": name, "platform.group_state": "closed"}
    tags |= {"platform.experiment": "faults", "platform.verb": verb}
    client.set_terminated(client.create_run(tracked.experiment_id, tags=tags).info.run_id)
    return tracked


def two_arms(tracked: Tracked) -> None:
    """Add two repeats of each of two arms. Jobs of the first one record their environment."""
    for repeat in range(2):
        run_id = tracked.trained("none", repeat, 100.5 + repeat, baseline=True)
        tracked.client.log_text(run_id, '{"job": {"versions": {"torch": "2.13.0"}}}', "environment.json")
        tracked.trained("inductor", repeat, 80.5 + repeat, 140.0)


def assert_says(report: Report, *sentences: str) -> None:
    """Check that every form of the report states the missing data."""
    assert list(report.missing) == list(sentences)
    text, out = Page(html_page(report)).text, io.StringIO()
    print_report(report, out)
    printed = " ".join(out.getvalue().split())
    for sentence in sentences:
        assert sentence in text
        assert sentence in printed
        assert sentence in summary(report)["missing"]
    assert markdown(report).count("Missing: ") == len(sentences)


def test_missing_and_non_finite_figures_are_reported(tracking_uri: str) -> None:
    somewhere = MlflowClient(tracking_uri)
    tracked = group_on(somewhere)
    for repeat in range(2):
        tracked.trained("none", repeat, 100.5 + repeat, baseline=True)
    odd = {"cost/billable_instance_seconds": INFINITE, "eval_loss": NAN, "time/compile_seconds": -INFINITE}
    tracked.trained("inductor", 0, 80.5, metrics=odd, losses=[2.0, NAN, INFINITE, -INFINITE, 1.0])
    tracked.job("inductor", 1, metrics={"samples": 2000.0, "eval_loss": 0.4, "loss": INFINITE})
    tracked.job("inductor", 2, status=None)
    tracked.client.delete_run(tracked.trained("none", 2, 99.0, tags={"mlflow.runName": "none, repeat 3"}))
    report = render(somewhere, tracked.group, "t")
    assert_says(
        report,
        "Missing: “inductor, repeat 3”, still running. Run `trainfare report` again after they have ended.",
        "Missing: billable seconds of “inductor, repeat 1”, “inductor, repeat 2”: not recorded or not finite.",
        "Missing: steady throughput of “inductor, repeat 2”: not recorded or not finite.",
        "Missing: eval_loss of “inductor, repeat 1”: not recorded or not finite.",
        "Missing: eval_accuracy of “inductor, repeat 2”: not recorded or not finite.",
        "Missing: none, repeat 3, deleted in MLflow. MLflow can restore deleted runs.",
    )
    assert "No setting is shown to be cheaper" in html_page(report)
    assert summary(report)["contrasts"][0]["outcome"] == "inconclusive"
    whole = group_on(somewhere)
    two_arms(whole)
    report = render(somewhere, whole.group, "t")
    assert_says(report)
    assert "torch 2.13.0" in html_page(report)


def test_a_deleted_group_is_reported_with_the_command_that_restores_it(
    tracking_uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tracked = group_on(MlflowClient(tracking_uri))
    [parent] = tracked.client.search_runs([tracked.experiment_id])
    tracked.client.delete_run(parent.info.run_id)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    assert main(["report", "--group", tracked.group]) == 2
    restore = f"restore it with `mlflow runs restore --run-id {parent.info.run_id}`."
    assert capsys.readouterr().err == f"error: the run of group '{tracked.group}' is deleted: {restore}\n"


@pytest.mark.slow
def test_a_report_is_made_without_permission_to_read_the_runs(
    team: Team, admin: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The permission USE of the workspace lists runs that cannot be read."""
    tracked = group_on(admin)
    two_arms(tracked)
    create_user(admin, "lister")
    role_id = administer(admin, "3.0/mlflow/roles/create", workspace="default", name="lister")["role"]["id"]
    use = {"resource_type": "workspace", "resource_pattern": "*", "permission": "USE"}
    administer(admin, "3.0/mlflow/roles/permissions/add", role_id=role_id, **use)
    administer(admin, "3.0/mlflow/roles/assign", role_id=role_id, username="lister")
    for name, value in team.as_user("lister").items():
        monkeypatch.setenv(name, value)
    report = render(MlflowClient(team.uri), tracked.group, "t")
    assert_says(
        report,
        f"Missing: the curves, versions and hardware. The tracking server {team.uri} does not let user "
        "'lister' read the experiment (403): the permission READ on it (EDIT to train in it) is missing; an "
        "administrator of the server can grant it.",
    )
    assert summary(report)["headline"] == "“inductor” is cheaper: 20 % fewer billable seconds than “none”."
