"""Fixtures: the system's Chromium, windows, and report pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from playwright.sync_api import Browser, sync_playwright

from tests.end_to_end.conftest import CommandLine
from tests.support.browser.made_reports import made_comparison, made_overview, made_probes, made_sweep
from tests.support.browser.window import PICTURES, Window

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if PICTURES.is_dir():
        terminalreporter.write_line(f"Screenshots: {PICTURES}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium. If it is not installed, the tests are skipped; in .ci/run that is an error."""
    executable = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if executable is None:
        if os.environ.get("TRAINFARE_CI"):
            pytest.fail("no Chromium is installed")
        pytest.skip("no Chromium is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable)
        yield browser
        browser.close()


@pytest.fixture
def window(browser: Browser) -> Iterator[Callable[..., Window]]:
    """Function that opens windows; they are closed when the test ends."""
    opened: list[Window] = []

    def new(*args: Any, **context: Any) -> Window:
        opened.append(Window(browser, *args, **context))
        return opened[-1]

    yield new
    for each in opened:
        each.close()


@pytest.fixture(scope="session")
def real_comparison(_template_database: Path, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """A store with a real comparison: a plain training loop at two batch sizes, two repeats each."""
    folder = tmp_path_factory.mktemp("real")
    shutil.copy(_template_database, folder / "mlflow.db")
    command_line = CommandLine(folder, f"sqlite:///{folder / 'mlflow.db'}")
    fields = {"experiment": "torch_loop", "script.hyperparameters.epochs": 1, "compare.repeats": 2}
    done = command_line("compare", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    return command_line


@pytest.fixture(scope="session")
def reports(
    _template_database: Path, tmp_path_factory: pytest.TempPathFactory, real_comparison: CommandLine
) -> dict[str, Path]:
    """Pages by name: one of each kind from hand-made runs, and one of a real comparison."""
    folder = tmp_path_factory.mktemp("reports")
    shutil.copy(_template_database, folder / "mlflow.db")
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    artifacts = (folder / "artifacts").as_uri()
    made = {"comparison": made_comparison, "sweep": made_sweep, "probes": made_probes, "overview": made_overview}
    pages = {name: folder / f"{name}.html" for name in made}
    for name, page in pages.items():
        page.write_text(made[name](client, artifacts), encoding="utf-8")
    [pages["real"]] = (real_comparison.folder / "home" / "reports").glob("*/report.html")
    return pages
