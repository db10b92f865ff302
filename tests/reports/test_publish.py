"""Test publishing a report to a run of a real store: the answer, the figures and the link to the jobs' charts."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from reports.model.report import Report
from reports.publish import log_separately, publish, write
from reports.render import render
from tests.support.tracking.tracked import Tracked
from tracking.groups.group import find_group
from tracking.queries import job_tables
from tracking.queries.group_view import MAX_VIEWS, write_view
from tracking.queries.mlflow_ui import experiment_to_show, job_charts
from tracking.server.store import Store

SAVED = {f"saving_percent/inductor{end}" for end in ("", " low", " high")}


def group_on(tracked: Tracked) -> str:
    """Log a group with two arms of two jobs each, 20 % apart, and return the id of the group's run."""
    tags = {"kind": "group", "group": tracked.group, "group_state": "closed", "verb": "compare", "experiment": "demo"}
    run_tags = {f"platform.{name}": value for name, value in tags.items()} | {"mlflow.runName": "compare demo"}
    parent = str(tracked.client.create_run(tracked.experiment_id, tags=run_tags).info.run_id)
    for repeat in range(2):
        tracked.trained("none", repeat, 100.5 + repeat, baseline=True, losses=[])
        tracked.trained("inductor", repeat, 80.5 + repeat, losses=[])
    return parent


def store_of(tracked: Tracked) -> Store:
    return Store(tracked.client, retry_seconds=5.0)


def rendered(tracked: Tracked) -> Report:
    return render(tracked.client, tracked.group, "demo")


def publish_to(tracked: Tracked, run_id: str, report: Report, folder: Path) -> Any:
    """Publish a report and return the updated run."""
    write(report, folder)
    publish(store_of(tracked), run_id, report, folder, "compare demo")
    return tracked.client.get_run(run_id)


def test_a_groups_run_shows_the_answer(tracked: Tracked, tmp_path: Path) -> None:
    run = publish_to(tracked, group_on(tracked), rendered(tracked), tmp_path / "report")
    assert run.info.run_name == run.data.tags["mlflow.runName"] == "inductor 20 % cheaper (compare demo)"
    matches = tracked.client.search_runs([tracked.experiment_id], f"attributes.run_name = '{run.info.run_name}'")
    assert [each.info.run_id for each in matches] == [run.info.run_id]
    assert run.data.metrics["billable_instance_seconds/none"] == pytest.approx((100.5 * 101.5) ** 0.5)
    assert run.data.metrics["billable_instance_seconds/inductor"] == pytest.approx((80.5 * 81.5) ** 0.5)
    assert run.data.metrics["saving_percent/inductor"] == pytest.approx(19.8, abs=0.05)
    assert set(run.data.metrics) >= SAVED
    assert run.data.tags["platform.headline"].startswith("“inductor” is cheaper: 20 % fewer")
    answer, link, *_ = run.data.tags["mlflow.note.content"].split("\n\n")
    assert answer == "**“inductor” is cheaper: 20 % fewer billable seconds than “none”.**"
    address = job_charts(tracked.experiment_id, tracked.group)
    assert link == f"[Charts of the jobs]({address})"
    assert parse_qs(address.partition("?")[2])["viewStateShareKey"] == [tracked.group]


def view_of(tracked: Tracked, group: str) -> dict[str, Any]:
    """Return the state in the saved view of a group."""
    tag = tracked.client.get_experiment(tracked.experiment_id).tags[f"mlflow.sharedViewState.{group}"]
    compressed = json.loads(tag)["state"].removeprefix("deflate;")
    state: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(compressed)))
    return state


def test_the_view_of_a_group_shows_its_verdicts_and_figures(tracked: Tracked, tmp_path: Path) -> None:
    publish_to(tracked, group_on(tracked), rendered(tracked), tmp_path / "report")
    view = view_of(tracked, tracked.group)
    order = [f"{view['orderByKey']} ASC"]
    runs = tracked.client.search_runs([tracked.experiment_id], view["searchFilter"], order_by=order)
    assert [run.data.tags["verdict"] for run in runs] == ["baseline"] * 2 + ["cheaper, 20 % fewer"] * 2
    assert [run.data.tags["arm"] for run in runs] == ["none"] * 2 + ["inductor"] * 2
    assert set(view["groupsExpanded"]) == {
        "tag.arm.none,tag.verdict.baseline",
        "tag.arm.inductor,tag.verdict.cheaper, 20 % fewer",
    }
    metrics = [name.split("`")[1] for name in view["selectedColumns"] if name.startswith("metrics.")]
    assert {"cost/billable_instance_seconds", "cost/usd", "eval_loss", "eval_accuracy"} < set(metrics)
    assert "train_loss" not in metrics
    first = [chart["metricKey"] for chart in view["compareRunCharts"]]
    assert first == [name for name in metrics if name in runs[0].data.metrics]
    assert view["compareRunSections"][-1]["name"] == "System metrics"


def test_an_experiment_keeps_the_views_of_its_latest_groups_and_of_its_users(tracked: Tracked) -> None:
    tracked.client.set_experiment_tag(tracked.experiment_id, "mlflow.sharedViewState.mine", "deflate;x")
    for number in range(MAX_VIEWS + 2):
        tags = {"platform.kind": "group", "platform.group": f"demo-{number:02}", "platform.verb": "sweep"}
        run = tracked.client.create_run(tracked.experiment_id, tags=tags, start_time=1000 + number)
        write_view(store_of(tracked), run)
    names = {name.rpartition(".")[2] for name in tracked.client.get_experiment(tracked.experiment_id).tags}
    assert names >= {"mine", "demo-02", f"demo-{MAX_VIEWS + 1:02}"}
    assert not names & {"demo-00", "demo-01"}
    view = view_of(tracked, "demo-02")
    assert view["groupBy"] is None
    assert "tags.`verdict`" in view["selectedColumns"]


def test_publishing_again_logs_only_changed_figures(tracked: Tracked, tmp_path: Path) -> None:
    parent = group_on(tracked)
    before = publish_to(tracked, parent, rendered(tracked), tmp_path / "1")
    again = publish_to(tracked, parent, rendered(tracked), tmp_path / "2")
    assert (again.info.run_name, again.data.metrics) == (before.info.run_name, before.data.metrics)
    for name in before.data.metrics:
        # A second point would make MLflow draw a line through both.
        assert [point.step for point in tracked.client.get_metric_history(parent, name)] == [0]
    tracked.trained("inductor", 2, 160.5, losses=[])
    after = publish_to(tracked, parent, rendered(tracked), tmp_path / "3")
    assert after.info.run_name == "inconclusive (compare demo)"
    assert after.data.metrics["billable_instance_seconds/inductor"] == pytest.approx((80.5 * 81.5 * 160.5) ** (1 / 3))
    history = tracked.client.get_metric_history(parent, "billable_instance_seconds/inductor")
    assert [point.step for point in history] == [0, 0]
    assert [point.value for point in history] == pytest.approx([(80.5 * 81.5) ** 0.5, (80.5 * 81.5 * 160.5) ** (1 / 3)])
    assert len(tracked.client.get_metric_history(parent, "billable_instance_seconds/none")) == 1


def test_a_published_group_keeps_its_users_name_and_is_not_read_as_a_job(tracked: Tracked, tmp_path: Path) -> None:
    parent = group_on(tracked)
    tracked.client.update_run(parent, name="for the paper")
    jobs = job_tables.jobs(tracked.client, tracked.group)
    run = publish_to(tracked, parent, rendered(tracked), tmp_path / "report")
    assert run.info.run_name == "for the paper"
    assert "billable_instance_seconds/none" in run.data.metrics
    assert job_tables.jobs(tracked.client, tracked.group).equals(jobs)
    assert find_group(store_of(tracked), group_id=tracked.group, experiment_name="").id == tracked.group
    assert experiment_to_show(store_of(tracked), "demo")[0] == tracked.experiment_id


def test_a_separate_run_has_the_figures(tracked: Tracked, tmp_path: Path) -> None:
    group_on(tracked)
    report = rendered(tracked)
    write(report, tmp_path / "report")
    log_separately(store_of(tracked), tracked.experiment_id, "demo", [tracked.group], report, tmp_path / "report")
    [run] = tracked.client.search_runs([tracked.experiment_id], "tags.`platform.kind` = 'report'")
    assert run.info.run_name == "inductor 20 % cheaper (report demo)"
    assert set(run.data.metrics) >= SAVED
    assert run.info.status == "FINISHED"
