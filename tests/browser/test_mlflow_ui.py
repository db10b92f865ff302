"""MLflow's UI as `python -m experiments ui` opens it, on a comparison that was really run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import ROOT
from tests.end_to_end.conftest import CommandLine
from tests.support.browser.window import Window

pytestmark = pytest.mark.browser
LONG_MS = 30_000
"""Its scripts are 10 MB, and machines differ."""
ITS_OWN = ("mlflow/users/current", "ResizeObserver loop")
"""Errors of MLflow's own UI: it requests the current user where nobody logs in, and Chromium reports
a layout that took two frames."""


@pytest.fixture(scope="module")
def address(real_comparison: CommandLine) -> Iterator[str]:
    """The address that the verb prints, while it runs."""
    opening = {"BROWSER", "DISPLAY", "WAYLAND_DISPLAY"}
    environment = {name: value for name, value in real_comparison.environment.items() if name not in opening}
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments", "ui", "--experiment", "torch_loop"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    said = []
    for line in process.stdout:
        said.append(line)
        if found := re.match(r"MLflow: (http\S+)", line):
            yield found[1]
            break
    process.terminate()  # SIGINT does not reach what a shell has put in the background
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 0, "".join([*said, rest])


@pytest.fixture
def shown(window: Callable[..., Window]) -> Window:
    opened = window()
    opened.page.set_default_timeout(LONG_MS)
    return opened


def complaints(shown: Window) -> list[str]:
    return [each for each in shown.complaints if not any(known in each for known in ITS_OWN)]


def test_the_run_table_opens_on_the_answer(shown: Window, address: str, real_comparison: CommandLine) -> None:
    shown.open(address)
    [group] = real_comparison.runs("group")
    assert group.info.run_name.endswith(" (compare torch_loop)")
    shown.page.get_by_text(group.info.run_name, exact=True).first.wait_for()
    shown.picture("mlflow-runs", whole=False)
    assert shown.in_view(f'text="{group.info.run_name}"')
    assert complaints(shown) == []


def test_the_parent_run_tells_the_answer(shown: Window, address: str, real_comparison: CommandLine) -> None:
    [group] = real_comparison.runs("group")
    answer = group.data.tags["mlflow.note.content"].splitlines()[0].strip("*")
    shown.open(run_page(address, group.info.run_id))
    told = shown.page.get_by_text(answer).first
    told.wait_for(state="attached")
    told.scroll_into_view_if_needed()
    shown.picture("mlflow-parent", whole=False)
    assert complaints(shown) == []


def test_the_charts_of_an_experiment_are_not_empty(shown: Window, address: str, real_comparison: CommandLine) -> None:
    """One section a figure: as they open, the figures of the groups' runs."""
    shown.open(f"{address}&compareRunsMode=CHART")
    charts(shown, "billable_instance_seconds")
    shown.picture("mlflow-charts", whole=False)
    assert complaints(shown) == []


def test_the_parent_run_leads_to_the_charts_of_its_jobs(
    shown: Window, address: str, real_comparison: CommandLine
) -> None:
    [group] = real_comparison.runs("group")
    shown.open(run_page(address, group.info.run_id))
    way = shown.page.get_by_role("link", name="Charts of its jobs").get_attribute("href")
    assert way
    assert way.startswith("#/experiments/")
    shown.open("about:blank").open(address.partition("#")[0] + way)  # as in the window of its own that it opens
    charts(shown, "cost")
    for run in real_comparison.runs():
        assert shown.page.get_by_text(run.info.run_name, exact=True).count() > 0
    shown.picture("mlflow-charts-of-jobs", whole=False)
    assert complaints(shown) == []


def test_a_job_charts_its_metrics(shown: Window, address: str, real_comparison: CommandLine) -> None:
    shown.open(run_page(address, real_comparison.runs()[0].info.run_id, "/model-metrics"))
    charts(shown, "cost", "throughput", "time")
    shown.picture("mlflow-job", whole=False)
    assert complaints(shown) == []


def test_the_report_sorts_within_mlflow(
    window: Callable[..., Window], address: str, real_comparison: CommandLine
) -> None:
    """MLflow shows it in a frame that may run scripts and nothing else; in a narrow one tables are as on a phone."""
    shown = window((1920, 1000))
    shown.page.set_default_timeout(LONG_MS)
    [group] = real_comparison.runs("group")
    shown.open(run_page(address, group.info.run_id, "/artifacts/report/report.html"))
    head = shown.page.frame_locator("iframe").locator("table.jobs th:has(button)").first
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert shown.page.locator("iframe").get_attribute("sandbox") == "allow-scripts"
    shown.picture("mlflow-report", whole=False)
    assert complaints(shown) == []


def charts(shown: Window, *sections: str) -> None:
    """Wait for a chart, and for the titles of sections of them."""
    shown.page.locator(".js-plotly-plot").first.wait_for()
    for name in sections:
        shown.page.get_by_text(name, exact=True).first.wait_for()


def run_page(address: str, run_id: str, more: str = "") -> str:
    return f"{address.partition('/runs?')[0]}/runs/{run_id}{more}?workflowType=machine_learning"
