"""Test a group's page, plots, terminal table and files on a real tracking store."""

import csv
import io
import re
from typing import Any

import pytest

from reports.comparison.tables import job_url
from reports.formats.html import html_page
from reports.formats.text import markdown, summary
from reports.render import render
from tests.support.reports.page import HOSTILE, Page, compared, sound_page
from tests.support.reports.reading import chart_names, markdown_text, terminal_text
from tracking.recorded.recorded_job import job_of


def test_a_comparison_in_every_form(tracked: Any) -> None:
    report = compared(tracked)
    page = sound_page(report)
    answer = "“inductor” is cheaper: 20 % fewer billable seconds than “none”."
    assert answer in page.text
    assert terminal_text(report).startswith(answer)
    assert answer in markdown(report)
    assert summary(report)["headline"] == answer
    assert "OutOfMemory: asked for <2 GiB>" in page.text
    failure = "1 job of “inductor” failed: OutOfMemory: asked for <2 GiB>."
    for form in (page.text, terminal_text(report), markdown_text(report)):
        assert failure in " ".join(form.split())
    assert chart_names(report) == {
        "billable",
        "interval",
        "loss_by_billable_seconds",
        "loss_by_samples",
        "phases",
        "throughput",
    }
    assert all(chart.png.startswith(b"\x89PNG") for chart in report.charts)
    assert "<title>Demo &amp; more</title>" in html_page(report)
    assert html_page(render(tracked.client, tracked.group, "Demo & more")) == html_page(report)
    rows = list(csv.DictReader(io.StringIO(report.rows_csv)))
    assert ([row["status"] for row in rows].count("FAILED"), len(rows)) == (1, 5)
    assert rows[0]["cost_billable_seconds"] == "100.5"
    numbers = summary(report)
    assert (numbers["baseline"], numbers["best"], numbers["quality_measure"]) == (
        "none",
        "inductor",
        "eval_accuracy",
    )
    assert numbers["paid_instance_seconds"] == pytest.approx(100.5 + 101.5 + 80.5 + 81.5)
    arm = numbers["arms"][1]
    assert (arm["jobs"], arm["succeeded"], arm["failed"], arm["repeats"]) == (3, 2, 1, 2)
    billed = arm["numbers"]["cost_billable_instance_seconds"]
    assert billed == pytest.approx({"median": 81.0, "low": 80.5, "high": 81.5, "n": 2, "typical": (80.5 * 81.5) ** 0.5})
    assert numbers["contrasts"][0]["outcome"] == "cheaper"
    assert numbers["contrasts"][0]["break_even"]["warm"]["kind"] == "already ahead"


def test_names_with_markup_and_quotes_are_escaped(tracked: Any) -> None:
    report = compared(tracked, HOSTILE)
    page = sound_page(report)
    assert HOSTILE in page.text
    assert "<script" not in html_page(report).lower()
    assert "<script" not in markdown(report)
    columns = [len(re.findall(r"(?<!\\)\|", line)) for line in markdown(report).splitlines() if line.startswith("|")]
    assert len(set(columns)) == 1


def test_runs_link_only_to_an_http_server() -> None:
    job = job_of({"run_id": "r1", "experiment_id": "7"})
    fragment = "#/experiments/7/runs/r1?workflowType=machine_learning"
    assert job_url("http://user:secret@host:5000/base/", job) == f"http://host:5000/base/{fragment}"
    assert job_url("sqlite:////tmp/mlflow.db", job) is None
    assert job_url("javascript:alert(1)", job) is None


def test_a_group_without_successful_jobs_or_without_jobs_has_a_page(tracked: Any) -> None:
    report = render(tracked.client, tracked.group, "t")
    assert "This group has no jobs." in sound_page(report).text
    assert summary(report)["arms"] == []
    for label in ("none", "inductor"):
        tracked.job(label, status="FAILED")
    report = render(tracked.client, tracked.group, "t")
    assert "No verdict: none of the 2 jobs succeeded." in sound_page(report).text
    assert report.charts == ()


def test_jobs_on_a_server_link_to_its_runs(tracked_by_server: Any) -> None:
    tracked = tracked_by_server
    run_id = tracked.trained("none", 0, 41.0)
    environment = '{"job": {"versions": {"torch": "2.13.0"}}, "git": {"commit": "0123456789abcdef", "dirty": true}}'
    tracked.client.log_text(run_id, environment, "environment.json")
    page = Page(html_page(render(tracked.client, tracked.group, "t")))
    fragment = f"#/experiments/{tracked.experiment_id}/runs/{run_id}?workflowType=machine_learning"
    assert [address for address in page.addresses if not address.startswith("#")] == [
        f"{tracked.client.tracking_uri}/{fragment}"
    ]
    assert "torch 2.13.0" in page.text
    assert "0123456789ab with local changes" in page.text


def test_a_script_that_ignores_its_seed_is_named(tracked: Any) -> None:
    """The repeats of `fixed` have equal losses, and those of `seeded` end with the same one."""
    script = {"tags": {"platform.measured": "outside"}}
    for repeat in range(2):
        tracked.trained("fixed", repeat, 100.0 + repeat, losses=[2.0, 1.0, 0.5], baseline=True, **script)
        tracked.trained("seeded", repeat, 90.0 + repeat, losses=[2.0, 1.0 + repeat, 0.5], **script)
        tracked.trained("flat", repeat, 90.0 + repeat, losses=[0.5], **script)
    report = render(tracked.client, tracked.group, "Demo")
    sentence = "Repeats of “fixed” with different seeds have equal losses to the digit: the script ignores its seed"
    for form in (sound_page(report).text, terminal_text(report), markdown_text(report)):
        assert sentence in " ".join(form.split())
