"""Test reports with data that cannot be read: the missing data, the reason and the number of requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mlflow import MlflowClient

from reports.formats.html import html_page
from reports.formats.text import summary
from reports.model.report import Report
from reports.render import CompareOptions, Reader, render, render_chosen
from tests.support.reports.made_sweeps import MadeSweep, sweep_json
from tests.support.reports.page import Page
from tests.support.reports.reading import chart_names
from tests.support.tracking.forwarding import Forwarding
from tests.support.tracking.tracked import Tracked
from tracking.queries import job_tables
from tracking.queries.job_tables import chosen_jobs
from tracking.recorded.arms import arms_of
from tracking.recorded.recorded_job import Job

REFUSAL = b'{"error_code": "PERMISSION_DENIED", "message": "no right to read"}'


@pytest.fixture(autouse=True)
def _without_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


def four_jobs(tracked: Tracked) -> list[Job]:
    for repeat in range(4):
        tracked.trained("none", repeat, 100.0 + repeat, baseline=True)
    [arm] = arms_of(job_tables.jobs(tracked.client, tracked.group))
    return arm.succeeded


def test_a_server_that_does_not_answer_gets_no_further_requests(tracked_by_server: Tracked) -> None:
    """The bulk request and its fallback for older servers are sent, but no later request for curves or files."""
    jobs = four_jobs(tracked_by_server)
    with Forwarding(str(tracked_by_server.client.tracking_uri), "/metrics/", 503) as proxy:
        reader = Reader(MlflowClient(proxy.url))
        assert reader.histories(jobs, ["loss"]) == {}
        assert reader.histories(jobs[:1], ["eval_loss"]) == {}
        assert reader.artifact(jobs[0].run_id, "environment.json", "versions and hardware") == {}
        assert [path.rpartition("/metrics/")[2] for path in proxy.paths] == [
            "get-history-bulk-interval",
            "get-history",
        ]
    [missing] = reader.missing
    assert missing.startswith(
        f"Missing: the curves, versions and hardware. The tracking server {proxy.url} did not return the curves of 4 "
        "runs: "
    )


def chosen(tracked: Tracked, client: MlflowClient) -> Report:
    four_jobs(tracked)
    return render_chosen(client, chosen_jobs(client, [tracked.group]), "t", CompareOptions(), [tracked.group])


def probes(tracked: Tracked, client: MlflowClient) -> Report:
    metrics = {f"projected/billable_seconds{end}": 400.0 for end in ("", "_low", "_high")}
    for arm in ("one", "other"):
        tracked.trained(arm, 0, 60.0, params={"hp.probe_precision": "0.05"}, metrics=metrics)
    return render(client, tracked.group, "t")


def sweep(tracked: Tracked, client: MlflowClient) -> Report:
    sweep_runs = MadeSweep(tracked.client, tracked.experiment_id, tracked.group)
    sweep_runs.write_spec(sweep_json())
    sweep_runs.calibration("none", [8, 16], 16)
    sweep_runs.training("trial", "none", 8)
    return render(client, sweep_runs.group, "t")


@pytest.mark.parametrize("make", [chosen, sweep])
def test_every_kind_of_report_is_made_without_curves(
    tracked_by_server: Tracked, make: Callable[[Tracked, MlflowClient], Report]
) -> None:
    with Forwarding(str(tracked_by_server.client.tracking_uri), "/metrics/", 403, REFUSAL) as proxy:
        report = make(tracked_by_server, MlflowClient(proxy.url))
    [missing] = report.missing
    assert missing.startswith(f"Missing: the curves. The tracking server {proxy.url} ")
    assert missing in Page(html_page(report)).text
    assert "loss_by_samples" not in chart_names(report)
    assert not summary(report)["headline"].startswith("No ")


@pytest.mark.parametrize("make", [probes, sweep])
def test_every_kind_of_report_is_made_without_files(
    tracked_by_server: Tracked, make: Callable[[Tracked, MlflowClient], Report]
) -> None:
    with Forwarding(str(tracked_by_server.client.tracking_uri), "mlflow-artifacts", 503) as proxy:
        report = make(tracked_by_server, MlflowClient(proxy.url))
    [missing] = report.missing
    files = "sweep.json, versions and hardware" if make is sweep else "versions and hardware"
    assert missing.startswith(f"Missing: {files}. The tracking server {proxy.url} did not return ")
    assert missing in Page(html_page(report)).text
    if make is not sweep:
        assert "loss_by_samples" in chart_names(report)


def test_deleted_jobs_of_selected_groups_are_reported(tracked: Tracked) -> None:
    """If only single jobs of a group were selected, its deleted jobs are not reported."""
    for group in ("demo-1", "demo-2"):
        tracked.group = group
        tracked.trained("none", 0, 100.0)
        deleted = tracked.trained("none", 1, 101.0, tags={"mlflow.runName": f"{group} #1"})
        tracked.client.delete_run(deleted)
    names = ["demo-1", "demo-2-2"]
    report = render_chosen(tracked.client, chosen_jobs(tracked.client, names), "t", CompareOptions(), names)
    assert report.missing == ("Missing: demo-1 #1, deleted in MLflow. MLflow can restore deleted runs.",)
