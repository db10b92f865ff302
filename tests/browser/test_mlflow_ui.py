"""Test MLflow's UI as `trainfare ui` opens it, on a real comparison."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from statistics import fmean

import pytest

from tests.conftest import ROOT
from tests.end_to_end.conftest import CommandLine
from tests.support.browser.window import Window

pytestmark = pytest.mark.browser
EXPECTED_ERRORS = ("mlflow/users/current", "ResizeObserver loop")
"""Errors of MLflow's UI: it requests the current user although there is no login, and Chromium reports a layout that
took two frames."""


@pytest.fixture(scope="module")
def address(real_comparison: CommandLine) -> Iterator[str]:
    """The address that the `ui` command prints, while the command runs."""
    excluded = {"BROWSER", "DISPLAY", "WAYLAND_DISPLAY"}
    environment = {name: value for name, value in real_comparison.environment.items() if name not in excluded}
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments", "ui", "--experiment", "torch_loop"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    lines = []
    for line in process.stdout:
        lines.append(line)
        if match := re.match(r"MLflow: (http\S+)", line):
            yield match[1]
            break
    process.terminate()  # a background process of a shell does not receive SIGINT
    rest, _ = process.communicate(timeout=480)
    assert process.returncode == 0, "".join([*lines, rest])


@pytest.fixture
def shown(window: Callable[..., Window]) -> Window:
    return window()


def errors(shown: Window) -> list[str]:
    return [each for each in shown.errors if not any(expected in each for expected in EXPECTED_ERRORS)]


def cell(shown: Window, row: int, column: str) -> str:
    """Return the text of a cell in MLflow's table of runs."""
    return shown.page.locator(f'.ag-row[row-index="{row}"] [col-id="{column}"]').inner_text()


def test_the_first_page_shows_the_verdict_the_cost_and_the_score_of_each_arm(
    window: Callable[..., Window], address: str, real_comparison: CommandLine
) -> None:
    """MLflow draws only the columns that fit the window, and its assistant takes a third of it."""
    shown = window((2400, 900)).open(address)
    shown.page.get_by_text("Group: arm: batch 64").first.wait_for()
    shown.screenshot("mlflow-runs", whole=False)
    for row, arm in enumerate(("batch 16", "batch 64")):
        runs = [run for run in real_comparison.runs() if run.data.tags["arm"] == arm]
        [verdict] = {run.data.tags["verdict"] for run in runs}
        assert (verdict == "baseline") == (row == 0)
        assert verdict != "pending"
        name = shown.page.locator(f'.ag-row[row-index="{row}"] .ag-cell').filter(has_text="Group:").inner_text()
        assert f"Group: arm: {arm}, verdict: {verdict}" in name
        for metric in ("cost/billable_instance_seconds", "eval_accuracy", "loss"):
            mean = fmean(run.data.metrics[metric] for run in runs)
            assert float(cell(shown, row, f"metrics.`{metric}`").split()[0]) == pytest.approx(mean), metric
        assert cell(shown, row, "params.`hp.batch_size`") == arm.removeprefix("batch ")
    assert errors(shown) == []


def test_the_parent_run_shows_the_answer_and_links_to_the_charts_of_its_jobs(
    shown: Window, address: str, real_comparison: CommandLine
) -> None:
    [group] = real_comparison.runs("group")
    shown.open(run_page(address, group.info.run_id))
    answer_text = shown.page.get_by_text(group.data.tags["mlflow.note.content"].splitlines()[0].strip("*")).first
    answer_text.wait_for(state="attached")
    answer_text.scroll_into_view_if_needed()
    shown.screenshot("mlflow-parent", whole=False)
    way = shown.page.get_by_role("link", name="Charts of the jobs").get_attribute("href")
    assert way
    shown.open("about:blank").open(address.partition("#")[0] + way)  # the link opens a new window
    sections = ("Cost, speed and quality", "Model metrics", "throughput", "machine")
    charts(shown, *sections)
    shown.screenshot("mlflow-charts-of-jobs", whole=False)
    boxes = [shown.page.get_by_text(name, exact=True).first.bounding_box() for name in sections]
    heights = [box["y"] for box in boxes if box]
    assert heights == sorted(heights)
    assert len(heights) == len(sections)
    assert errors(shown) == []


def test_the_report_is_shown_within_mlflow(
    window: Callable[..., Window], address: str, real_comparison: CommandLine
) -> None:
    """MLflow shows the report in a frame."""
    shown = window((1920, 1000))
    [group] = real_comparison.runs("group")
    shown.open(run_page(address, group.info.run_id, "/artifacts/report/report.html"))
    shown.page.frame_locator("iframe").locator("table.jobs th").first.wait_for()
    shown.screenshot("mlflow-report", whole=False)
    assert errors(shown) == []


def charts(shown: Window, *sections: str) -> None:
    """Wait for a chart, and for these section titles."""
    shown.page.locator(".js-plotly-plot").first.wait_for()
    for name in sections:
        shown.page.get_by_text(name, exact=True).first.wait_for()


def run_page(address: str, run_id: str, more: str = "") -> str:
    return f"{address.partition('/runs?')[0]}/runs/{run_id}{more}?workflowType=machine_learning"
