"""Test an experiment's overview against values worked out by hand, on the page, in the file and in the terminal."""

from __future__ import annotations

import csv
import io
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mlflow import MlflowClient

from experiments.__main__ import main
from reports.formats.html import html_page
from reports.overview import MAX_GROUPS, OUTCOMES, Costs, overview_report
from reports.render import render_overview
from tests.support.reports.made_experiments import Experiment
from tests.support.reports.page import HOSTILE, Page
from tests.support.reports.reading import terminal_lines, terminal_text
from tracking.queries.job_tables import experiment_named, experiment_runs
from training.contract.errors import TrackingError


def counts(costs: Costs) -> tuple[int, ...]:
    """Return the numbers of finished, failed, stopped and running jobs."""
    return tuple(costs[outcome] for outcome in OUTCOMES)


def test_groups_are_ordered_newest_first(made: Experiment) -> None:
    groups = made.overview().groups
    assert [group["group"] for group in groups] == ["d-1", None, "p-1", "s-1", "c-1"]
    assert [group["verb"] for group in groups] == ["", "", "probe", "sweep", "compare"]
    assert [group["headline"] for group in groups] == [None, None, None, None, "“inductor” is cheaper."]
    assert [group["arms"] for group in groups] == [
        ("none",), ("none",), (), ("batch 8", "batch 16", "batch 32"), ("none", "inductor"),
    ]  # fmt: skip
    assert groups[-1]["started_at"] == datetime(2026, 1, 31, 23, 50, tzinfo=UTC)
    assert groups[0]["started_at"] == datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert (groups[0]["run_id"], groups[1]["run_id"]) == (None, None)


def test_costs_are_summed_for_each_group(made: Experiment) -> None:
    deleted, ungrouped, probe, sweep, compare = made.overview().groups
    assert [counts(costs) for costs in (deleted, ungrouped, probe)] == [(1, 0, 0, 0), (1, 0, 0, 0), (0, 0, 0, 0)]
    assert (counts(sweep), counts(compare)) == ((0, 2, 1, 1), (2, 1, 0, 0))
    assert [costs["billable_instance_seconds"] for costs in (deleted, ungrouped, probe, sweep, compare)] == [
        9.5, 50.0, 0.0, 30.0, 200.5,
    ]  # fmt: skip
    assert compare["usd"] == 2.0
    assert math.isnan(sweep["usd"])
    assert (sweep["unbilled"], sweep["unpriced"]) == (2, 1)


def test_totals_are_summed_by_month(made: Experiment) -> None:
    overview = made.overview()
    total = overview.total
    assert (total["jobs"], counts(total)) == (9, (4, 3, 1, 1))
    assert (total["billable_instance_seconds"], total["usd"]) == (290.0, 2.0)
    assert (total["unbilled"], total["unpriced"]) == (2, 3)
    assert [(m["label"], m["jobs"], m["billable_instance_seconds"]) for m in overview.months] == [
        ("2026-03", 2, 59.5), ("2026-02", 5, 50.0), ("2026-01", 2, 180.5),
    ]  # fmt: skip
    assert overview.months[2]["usd"] == 1.75
    wasted = overview.wasted
    assert (wasted["jobs"], wasted["billable_instance_seconds"], wasted["usd"]) == (3, 20.0, 0.25)
    assert overview.prices == ("AWS, 2026-02-01",)
    assert (total["warm_pool_instance_seconds"], total["warm_pool_usd"]) == (7.0, 0.07)
    # Infinities and NaN of single jobs are left out of the sums.
    all_costs = [total, *overview.months, *overview.groups]
    assert all(math.isfinite(costs["billable_instance_seconds"]) for costs in all_costs)


def test_paging_does_not_change_the_overview(made: Experiment) -> None:
    assert made.overview(page_runs=2) == made.overview()


def test_a_resumed_group_shows_its_last_launchers_run(empty: Experiment) -> None:
    first = empty.parent("g", "2026-01-01 00:00", "compare", "old", group_state="continued")
    second = empty.parent("g", "2026-01-01 02:00", "compare", "new", group_state="closed")
    third = empty.parent("g", "2026-01-01 03:00", "compare", "older", group_state="continued")
    [group] = empty.overview().groups
    assert (group["headline"], group["run_id"]) == ("new", second)
    assert group["started_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    empty.client.delete_run(second)
    [group] = empty.overview().groups
    assert group["run_id"] == third != first


def test_a_silent_server_is_an_error() -> None:
    client = MlflowClient("http://127.0.0.1:9")
    with pytest.raises(TrackingError, match="find experiment 'demo'"):
        experiment_named(client, "demo")
    with pytest.raises(TrackingError, match="did not list the runs of experiment"):
        list(experiment_runs(client, "1"))


def test_the_terminal_shows_totals_and_groups(made: Experiment) -> None:
    text = terminal_text(overview_report(made.overview(), "sqlite://"))
    assert "9 jobs took 290 billable instance seconds and 2.00 USD in all." in text
    assert "1 comparison, 1 probe, 1 sweep, 1 other group, 1 job without a group." in text
    assert "3 jobs failed: 20.0 billable instance seconds (7 %) and 0.25 USD were wasted." in text
    assert "2 jobs ended without a billing record." in text
    assert "Dollars are based on these prices: AWS, 2026-02-01. They exclude 3 jobs without a price." in text
    assert "the next job were billed a further 7.00 instance seconds and 0.0700 USD." in text
    assert "compare demo 2026-01-31 23:50 3 jobs, 1 failed 200 s, 2.00 USD c-1 “inductor” is cheaper." in text
    assert "sweep demo 2026-02-10 09:00 4 jobs, 2 failed, 1 stopped, 1 running 30.0 s s-1 no report yet" in text


def test_every_group_is_on_the_page_and_in_the_file(made: Experiment) -> None:
    _, report = render_overview(made.client, "demo")
    page = Page(html_page(report))
    assert not page.tags & {"link", "img", "iframe", "object"}
    assert page.addresses == []
    for text in ("“inductor” is cheaper.", "no report yet", "2026-01-31 23:50", "none, inductor", "200", "2026-03"):
        assert text in page.text
    rows = list(csv.DictReader(io.StringIO(report.rows_csv)))
    assert [row["group"] for row in rows] == ["d-1", "", "p-1", "s-1", "c-1"]
    expected = {
        "group": "c-1", "run_id": rows[4]["run_id"], "started_at": "2026-01-31T23:50:00+00:00", "verb": "compare",
        "experiment": "demo", "arms": "none; inductor", "headline": "“inductor” is cheaper.", "jobs": "3",
        "finished": "2", "failed": "1", "stopped": "0", "running": "0", "unbilled": "0",
        "billable_instance_seconds": "200.5", "usd": "2.0",
    }  # fmt: skip
    assert expected.items() <= rows[4].items()
    assert rows[3]["usd"] == ""


def test_an_experiment_without_prices_shows_no_dollars(empty: Experiment) -> None:
    empty.parent("t-1", "2026-01-01 00:00", "train")
    empty.job("t-1", "2026-01-01 00:00", seconds=9000.0)
    _, report = render_overview(empty.client, "demo")
    assert "1 job took 9,000 billable instance seconds (2.50 h) in all." in Page(html_page(report)).text
    assert "USD" not in html_page(report)


def test_an_experiment_without_runs_has_no_jobs(empty: Experiment) -> None:
    _, report = render_overview(empty.client, "demo")
    assert terminal_text(report) == "“demo” has no jobs."
    assert "“demo” has no jobs." in Page(html_page(report)).text
    assert list(csv.DictReader(io.StringIO(report.rows_csv))) == []


def test_hostile_names_are_escaped(empty: Experiment) -> None:
    empty.parent("<i>'g'", "2026-01-01 00:00", HOSTILE, HOSTILE)
    empty.job("<i>'g'", "2026-01-01 00:00", HOSTILE, seconds=1.0)
    overview = empty.overview()
    report = overview_report(overview, "http://somebody:secret@host:5000/base/")
    page = Page(html_page(report))
    assert page.text.count(HOSTILE) >= 3
    path = f"/base/#/experiments/{empty.id}/runs/{overview.groups[0]['run_id']}?workflowType=machine_learning"
    assert page.addresses == [f"http://host:5000{path}"]
    assert next(csv.DictReader(io.StringIO(report.rows_csv)))["headline"] == HOSTILE


def test_many_groups_with_many_arms_keep_to_the_terminal(empty: Experiment) -> None:
    for number in range(MAX_GROUPS + 3):
        group = f"a-group-with-a-telling-name-{number}"
        empty.parent(group, f"2026-01-01 {number:02}:00", "sweep", "The best setting is another one. " * 5)
    for arm in range(8):
        empty.job(group, "2026-01-02 00:00", f"inductor, batch {arm}, rate 0.00012", seconds=1e6)
    overview = empty.overview()
    report = overview_report(overview, "sqlite://")
    lines = terminal_lines(report)
    text = "\n".join(lines) + "\n"
    assert all(len(line) <= 100 for line in lines)
    assert "... and 3 older groups; the page lists them all." in text
    assert f"name-{MAX_GROUPS + 2}\n" in text
    assert "name-2\n" not in text
    assert "rate 0.00012 and 2 more" in " ".join(text.split())
    assert len(list(csv.DictReader(io.StringIO(report.rows_csv)))) == MAX_GROUPS + 3


def test_the_command_writes_the_overview(
    made: Experiment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(made.client.tracking_uri))
    assert main(["report", "--experiment", "somewhere/demo.yaml", "--overview", "true"]) == 0
    folder = tmp_path / "home" / "reports" / f"overview-{made.id}"
    assert capsys.readouterr().out.endswith(f"\nOverview: {folder / 'overview.html'}\n")
    assert "9 jobs took 290" in (folder / "overview.html").read_text()
    assert len((folder / "groups.csv").read_text().splitlines()) == 6
