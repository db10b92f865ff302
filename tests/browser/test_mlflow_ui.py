"""Test MLflow's UI as `trainfare ui` opens it, on a real comparison."""

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


def test_the_run_table_opens_on_the_answer_and_the_parent_run_shows_it(
    shown: Window, address: str, real_comparison: CommandLine
) -> None:
    shown.open(address)
    [group] = real_comparison.runs("group")
    assert group.info.run_name.endswith(" (compare torch_loop)")
    shown.page.get_by_text(group.info.run_name, exact=True).first.wait_for()
    shown.screenshot("mlflow-runs", whole=False)
    assert shown.in_view(f'text="{group.info.run_name}"')
    shown.open(run_page(address, group.info.run_id))
    answer_text = shown.page.get_by_text(group.data.tags["mlflow.note.content"].splitlines()[0].strip("*")).first
    answer_text.wait_for(state="attached")
    answer_text.scroll_into_view_if_needed()
    shown.screenshot("mlflow-parent", whole=False)
    assert errors(shown) == []


def test_the_parent_run_links_to_the_charts_of_its_jobs(
    shown: Window, address: str, real_comparison: CommandLine
) -> None:
    [group] = real_comparison.runs("group")
    shown.open(run_page(address, group.info.run_id))
    way = shown.page.get_by_role("link", name="Charts of the jobs").get_attribute("href")
    assert way
    assert way.startswith("#/experiments/")
    shown.open("about:blank").open(address.partition("#")[0] + way)  # the link opens a new window
    charts(shown, "cost")
    for run in real_comparison.runs():
        shown.page.get_by_text(run.info.run_name, exact=True).first.wait_for(state="attached")
    shown.screenshot("mlflow-charts-of-jobs", whole=False)
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
