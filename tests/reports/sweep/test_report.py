"""Test every form of a sweep's report, from runs on a real tracking store, complete and with missing data."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from mlflow import MlflowClient

from reports.comparison.report import Source
from reports.formats.figures import summary
from reports.formats.html import html_page
from reports.formats.markdown import markdown
from reports.formats.terminal import print_report
from reports.model.report import Report
from reports.render import render
from reports.sweep.report import sweep_report
from reports.sweep.sweep import sweep_of
from tests.support.reports.made_sweeps import MadeSweep, sweep_json, whole_sweep
from tests.support.reports.page import HOSTILE, Page
from tests.support.reports.reading import chart_names

CHARTS = {
    *("cost_by_batch", "throughput_by_batch", "memory_by_batch", "quality_by_batch"),
    *("history", "importance", "phases"),
}


def printed(report: Report) -> str:
    out = io.StringIO()
    print_report(report, out)
    return out.getvalue()


def assert_sound(report: Report) -> Page:
    """Check that every form of the report is well-formed, and return the page."""
    page = Page(html_page(report))
    assert len(page.ids) == len(set(page.ids))
    assert not page.tags & {"link", "img", "iframe", "object"}
    for svg in re.findall(r"<svg.*?</svg>", html_page(report), flags=re.S):
        ElementTree.fromstring(svg.replace("xlink:href", "href"))
    json.dumps(summary(report), allow_nan=False)
    assert summary(report)["headline"] in page.text
    command = sweep_json()["train_command"]
    assert all(len(line) <= 100 for line in printed(report).splitlines() if command not in line)
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", html_page(report), flags=re.S).lower().replace("finance", "")
    return page


@pytest.fixture(scope="module")
def client(_template_database: Any, tmp_path_factory: pytest.TempPathFactory) -> MlflowClient:
    """One store for all sweeps of this file; each sweep has a separate experiment."""
    path = tmp_path_factory.mktemp("sweeps") / "mlflow.db"
    path.write_bytes(_template_database.read_bytes())
    return MlflowClient(f"sqlite:///{path}")


@pytest.fixture
def new(client: MlflowClient, request: pytest.FixtureRequest, tmp_path: Any) -> Callable[[], MadeSweep]:
    """Function that makes an empty sweep."""
    name = re.sub(r"\W+", "-", request.node.name)
    experiment_id = client.create_experiment(name, artifact_location=(tmp_path / "artifacts").as_uri())
    return lambda: MadeSweep(client, experiment_id, name)


@pytest.fixture(scope="module")
def report(client: MlflowClient, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Report of a complete sweep."""
    artifacts = tmp_path_factory.mktemp("artifacts").as_uri()
    sweep = whole_sweep(client, client.create_experiment("whole", artifact_location=artifacts))
    return render(client, sweep.group, "Emotion & more")


def rendered(sweep: MadeSweep) -> Report:
    return render(sweep.client, sweep.group, "t")


def test_every_form_has_the_whole_answer(report: Report) -> None:
    page = assert_sound(report)
    answer = "inductor at batch 64, rate × 2, reaches eval_loss 0.45 for 6"
    for text in (page.text, printed(report).replace("\n", " "), markdown(report).replace("\\", "")):
        assert answer in text
        assert sweep_json()["train_command"] in text
    assert chart_names(report) == CHARTS
    assert all(chart.png.startswith(b"\x89PNG") for chart in report.charts)
    for title in ("The best of each compiler setting", "Compiler and batch size separately", "Cost of the sweep"):
        assert title in page.text
    assert "pruned: its bill would be above the cheapest" in page.text
    assert "OutOfMemory" in page.text


def test_numbers_of_the_summary(report: Report) -> None:
    numbers = summary(report)
    assert (numbers["best"]["compiler"], numbers["best"]["batch_size"], numbers["best"]["multiplier"]) == (
        "inductor",
        64.0,
        2.0,
    )
    assert numbers["best_by_compiler"]["none"]["batch_size"] == 64.0
    assert numbers["base"]["batch_size"] == 8.0
    assert {each["what"]: each["jobs"] for each in numbers["spent"]} == {
        "calibration": 2,
        "trial": 18,
        "confirmation": 12,
        "all": 30 + 2,
    }
    assert len(numbers["trials"]) == 18
    assert numbers["grid"]["settings"] == 55  # 256 does not fit without a compiler
    assert [each["outcome"] for each in numbers["confirmation"]].count("cheaper") == 3
    assert len(report.rows_csv.splitlines()) == 33


def test_markdown_tables_have_equal_columns_in_every_row(report: Report) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", markdown(report), flags=re.M)
    assert len(tables) == 3
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def nothing(sweep: MadeSweep) -> str:
    return "This sweep has no jobs."


def only_calibrated(sweep: MadeSweep) -> str:
    sweep.write_spec(sweep_json())
    sweep.calibration("none", [8, 16], 8)
    return "No trial yet: none fits batches up to 8."


def calibrated_without_points(sweep: MadeSweep) -> str:
    sweep.run("calibration", "none", seconds=3.0, status="FAILED")
    return "No trial yet: nothing was calibrated either."


def all_failed(sweep: MadeSweep) -> str:
    sweep.write_spec(sweep_json())
    for compiler in ("none", "inductor"):
        sweep.run("trial", compiler, seconds=3.0, status="FAILED", tags={"platform.end": "failed: BadData"})
    return "No answer: none of 2 trials completed with a known cost."


def none_reached(sweep: MadeSweep) -> str:
    sweep.write_spec(sweep_json())
    sweep.training("trial", "none", 8, 0.25, until=0.1, tags={"platform.trial": "0"})
    return "No answer: none of 1 trial reached eval_loss 0.45."


def one_trial_without_a_spec(sweep: MadeSweep) -> str:
    sweep.training("trial", "none", 8, target=None)
    return "none at batch 8 is the best of 1 trial: "


def not_a_number(sweep: MadeSweep) -> str:
    sweep.write_spec(sweep_json())
    broken = {"eval_loss": float("nan"), "cost/billable_instance_seconds": float("inf")}
    for size in (8, 16):
        sweep.run(
            "trial",
            "none",
            seconds=9.0,
            metrics=broken,
            params={"hp.batch_size": size, "hp.learning_rate": "x"},
        )
    return "No answer: none of 2 trials"


def still_running(sweep: MadeSweep) -> str:
    sweep.write_spec(sweep_json())
    sweep.training("trial", "inductor", 32)
    sweep.training("trial", "none", 32, until=0.1, status="RUNNING", tags={"platform.end": "running"})
    return "inductor at batch 32 is the best of 2 trials: "


def hostile_names(sweep: MadeSweep) -> str:
    sweep.write_spec(sweep_json(train_command=HOSTILE, stopped_because={"none": HOSTILE}, compilers=["none"]))
    sweep.training("trial", "none", 32, tags={"platform.end": f"pruned: {HOSTILE}"})
    sweep.training("trial", "none", 16)
    return "none at batch 16 is the best of 2 trials: "


@pytest.mark.parametrize(
    "build",
    [
        *(nothing, only_calibrated, calibrated_without_points, all_failed, none_reached),
        *(one_trial_without_a_spec, not_a_number, still_running, hostile_names),
    ],
)
def test_missing_data_is_not_an_error(new: Callable[[], MadeSweep], build: Callable[[MadeSweep], str]) -> None:
    sweep = new()
    expected = build(sweep)
    report = rendered(sweep)
    assert_sound(report)
    assert summary(report)["headline"].startswith(expected)


def test_the_page_explains_a_missing_importance(new: Callable[[], MadeSweep]) -> None:
    sweep = new()
    sweep.write_spec(sweep_json(importances={"none": {}, "inductor": {"batch_size": 0.6, "learning_rate": 0.4}}))
    for size in (16, 32):
        sweep.training("trial", "none", size)
        sweep.training("trial", "inductor", size)
    stopped = {"platform.end": "pruned: behind the best"}
    sweep.training("trial", "none", 64, until=0.1, status="KILLED", tags=stopped)
    report = rendered(sweep)
    assert (
        "The importance of batch size and learning rate is known once 4 trials of a compiler have completed at "
        "different costs. So far: 2 under none."
    ) in assert_sound(report).text
    assert "importance" in chart_names(report)


def test_a_page_with_all_importances_has_no_explanation(report: Report) -> None:
    assert "The importance of batch size" not in html_page(report)


def test_one_compiler_in_dollars_at_a_bound(new: Callable[[], MadeSweep]) -> None:
    sweep = new()
    objective = {"cost": "usd", "metric": "eval_loss", "target": None, "bound": 0.42}
    sweep.write_spec(sweep_json(objective=objective, compilers=["none"], multipliers=[1]))
    for size in (8, 32, 128):
        run_id = sweep.training("trial", "none", size, target=None)
        sweep.client.log_metric(run_id, "cost/usd", 1 / size)
    report = rendered(sweep)
    page = assert_sound(report)
    assert "none at batch 128 is the best of 3 trials" in page.text
    assert "pareto" in chart_names(report)


def test_runs_link_to_their_server() -> None:
    row = {"run_id": "r1", "experiment_id": "7", "status": "FINISHED", "role": "trial", "end": "completed"}
    table = pd.DataFrame([row])
    source = Source(title="t", tracking_uri="http://u:p@host:5000", environment={}, table=table)
    report = sweep_report(sweep_of(table, "g", {}, {}, {}), [], source)
    link = "http://host:5000/#/experiments/7/runs/r1?workflowType=machine_learning"
    assert link in Page(html_page(report)).addresses
