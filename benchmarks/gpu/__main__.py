"""`python -m benchmarks.gpu [--minutes N]`, which `make accept-gpu` calls."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu.cards import Cards, cards_here
from benchmarks.gpu.measuring import Deadline, measure_workloads, try_paths
from benchmarks.gpu.paths import PATHS
from benchmarks.gpu.workload_sides import GPU_WORKLOADS, SIDES, runnable
from benchmarks.support.data import DATA
from benchmarks.support.results import write

MINUTES = 30
PATHS_SHARE = 0.5
"""Share of the time after which no further path is started, so that the workloads have the rest."""
NO_GPU = 2


def main(arguments: Sequence[str]) -> int:
    """Run the acceptance. Return 0 as expected, 1 if anything differs, 2 without a GPU."""
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description="Acceptance on a machine with NVIDIA GPUs.")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"time limit, by default {MINUTES}")
    minutes = parser.parse_args(arguments).minutes
    cards, has_rows = cards_here(), DATA.is_dir()
    print("\n".join(plan(cards, has_rows, minutes)), flush=True)
    return _accept(cards, has_rows, minutes * 60) if cards else NO_GPU


def plan(cards: Cards | None, has_rows: bool, minutes: float) -> list[str]:
    """Return the lines that say what will run, or would run on a GPU."""
    tense = "This command runs" if cards else "On a machine with one, this command would run"
    head = f"{cards.count} x {cards.name}." if cards else "This machine has no GPU that PyTorch can use."
    source = (
        f"the data in {DATA}, with random weights" if has_rows else "the data and weights that they name on the Hub"
    )
    paths = []
    for path in PATHS:
        reason = cards.reason_against(path) if cards else ""
        paths.append(f"  {path.name}: {path.title}" + (f" (left out: {reason})" if reason else ""))
    return [
        f"{head} {tense}, in at most {minutes:g} minutes:",
        "",
        "Short jobs with the demo's model or a small Llama, whose evaluation losses are compared with a reference's:",
        *paths,
        "",
        f"The workloads in their real sizes ({', '.join(SIDES)}), on {source}:",
        *(f"  {each.name}: batch size {each.batch_size}" for each in runnable(GPU_WORKLOADS, has_rows)),
        *([] if cards else ["", "Nothing was run."]),
    ]


def _accept(cards: Cards, has_rows: bool, seconds: float) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder, whole = Path(name), Deadline(seconds)
        print("\nPaths:", flush=True)
        paths = try_paths(PATHS, cards, folder, Deadline(seconds * PATHS_SHARE), _echo)
        write("gpu-paths", paths.rows, paths.notes)
        print("\nWorkloads:", flush=True)
        workloads = measure_workloads(GPU_WORKLOADS, has_rows, folder, whole, _echo)
        write("gpu-workloads", workloads.rows, workloads.notes)
    has_passed = paths.has_passed and workloads.has_passed
    print("Everything is as expected." if has_passed else "Something differs: see docs/benchmarks.md.")
    return 0 if has_passed else 1


def _echo(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
