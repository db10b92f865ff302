"""Speed of reports on many jobs, compared with reading the same rows through MLflow's client.

One report is on a group of 200 jobs, the other on an experiment of 10,000 jobs. The measured time includes everything
that the command `report` does, including writing files and printing. The raw query of a group is `search_runs` and each
run's histories of `loss` and `samples`. The raw query of an experiment is `search_runs`, page by page.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from mlflow import MlflowClient

from benchmarks.support.generated_runs import (
    COMPARED,
    COMPARED_ARMS,
    COMPARED_REPEATS,
    EXPERIMENT,
    GROUPS,
    JOBS,
    create_database,
)
from benchmarks.support.peak_memory import run_measured
from benchmarks.support.results import Row, median_row, write
from experiments.running.write_overview import overview
from experiments.running.write_report import report_group
from tracking.groups.group import find_group
from tracking.server.store import Store

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 7))
OVERVIEW_ROUNDS = int(os.environ.get("BENCH_OVERVIEW_ROUNDS", 3))
MAX_RATIO = 1.2
MAX_MIB = 500e6 / 2**20
COMPARED_JOBS = COMPARED_ARMS * COMPARED_REPEATS


def raw_group(client: MlflowClient, experiment_id: str) -> None:
    """Read the compared jobs and their curves through MLflow's client."""
    query = f"tags.`platform.group` = '{COMPARED}' and tags.`platform.kind` = 'job'"
    runs = client.search_runs([experiment_id], query)
    points = [client.get_metric_history(run.info.run_id, key) for run in runs for key in ("loss", "samples")]
    assert len(runs) == COMPARED_JOBS
    assert len(points) == 2 * COMPARED_JOBS


def raw_experiment(client: MlflowClient, experiment_id: str) -> None:
    """Read all runs of the experiment, in pages of MLflow's default size."""
    count, token = 0, None
    while True:
        page = client.search_runs([experiment_id], page_token=token)
        count, token = count + len(page), page.token
        if not token:
            break
    assert count == JOBS + GROUPS


def alternate(rounds: int, sides: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Run the sides alternately. Return the seconds of each side, by round. Their output is discarded."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            gc.collect()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                started = time.perf_counter()
                work()
                seconds[name].append(time.perf_counter() - started)
    return seconds


def comparison_rows(subject: str, seconds: Mapping[str, list[float]]) -> list[Row]:
    """Return rows with the ratio, the report's seconds and the raw query's seconds."""
    ratios = [ours / raw for ours, raw in zip(seconds["ours"], seconds["raw"], strict=True)]
    return [
        median_row(
            f"{subject} over the raw query",
            ratios,
            "ratio",
            f"at most {MAX_RATIO}",
            statistics.median(ratios) <= MAX_RATIO,
        ),
        median_row(subject, seconds["ours"], "s"),
        median_row(f"{subject}: the raw query", seconds["raw"], "s"),
    ]


def memory_rows(folder: Path) -> list[Row]:
    """Measure the overview's memory in a separate process, and count its progress messages."""
    done = run_measured(
        "experiments", ["report", "--experiment", EXPERIMENT, "--overview", "true"], _environment(folder)
    )
    messages = sum(line.startswith("Reading: ") for line in done.stderr.splitlines())
    return [
        Row(
            name="overview: peak memory",
            value=done.peak_mib,
            unit="MiB",
            target="under 500 MB",
            met=done.peak_mib < MAX_MIB,
        ),
        Row(name="overview: lines of progress", value=messages, unit="lines", target="at least 1", met=messages >= 1),
    ]


def _environment(folder: Path) -> dict[str, str]:
    return {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}", "TRAINFARE_HOME": str(folder / "home")}


def main() -> None:
    """Create the runs, and measure both reports and the memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= _environment(folder)
        client = create_database(folder)
        store = Store(client)
        group = find_group(store, group_id=COMPARED, experiment_name=EXPERIMENT)
        group_sides = {
            "raw": lambda: raw_group(client, group.experiment_id),
            "ours": lambda: report_group(store, group, EXPERIMENT),
        }
        experiment_sides = {
            "raw": lambda: raw_experiment(client, group.experiment_id),
            "ours": lambda: overview(EXPERIMENT),
        }
        alternate(1, group_sides)  # Warm up: imports, fonts, compiled SQL statements.
        rows = comparison_rows(f"report of {COMPARED_JOBS} jobs", alternate(ROUNDS, group_sides))
        rows += comparison_rows(f"overview of {JOBS:,} jobs", alternate(OVERVIEW_ROUNDS, experiment_sides))
        rows += memory_rows(folder)
    write(
        "report",
        rows,
        [
            f"SQLite with {JOBS:,} jobs in {GROUPS} groups, each with 40 parameters and 20 metrics. The group of "
            f"{COMPARED_JOBS} jobs has {COMPARED_ARMS} arms of {COMPARED_REPEATS} repeats, with 200 points of loss and "
            "of samples each. The sides alternate in one process, after one report that is not counted. A report "
            "includes writing its files and copying them to the tracking server.",
            "Memory is that of `trainfare report --overview true` in a separate process, with imports.",
            f"Load of the machine at the end: {os.getloadavg()[0]:.1f}.",
        ],
    )


if __name__ == "__main__":
    main()
