"""`python -m benchmarks.gpu [--minutes N] [--only NAME...] [--parallel N]`, which `make accept-gpu` calls."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.cards import Cards, cards_here
from benchmarks.gpu.jobs import Deadline
from benchmarks.gpu.path_outcomes import try_paths
from benchmarks.gpu.paths import PATHS, GpuPath
from benchmarks.gpu.workload_gains import measure_workloads
from benchmarks.gpu.workload_losses import SEEDS
from benchmarks.gpu.workload_sides import GPU_WORKLOADS, SIDES, runnable
from benchmarks.support.data import DATA
from benchmarks.support.results import write
from benchmarks.support.workloads import Workload

MINUTES = 30
PATHS_SHARE = 0.3
"""Share of the time after which no path runs any more, so that the workloads have the rest: on an H100, the 24 jobs for
their speeds take 16 minutes. The 32 for the losses run several at a time."""
PARALLEL = max(1, min(8, len(os.sched_getaffinity(0)) // 2))
"""Number of jobs to run at a time, by default, if their speed does not count. Starting a job keeps two cores busy and
takes longer than its training."""
NO_GPU = 2


def main(arguments: Sequence[str]) -> int:
    """Run the acceptance. Return 0 as expected, 1 if anything differs, 2 without a GPU."""
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description="Acceptance on a machine with NVIDIA GPUs.")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"time limit, by default {MINUTES}")
    names = [*(path.name for path in PATHS), *(workload.name for workload in GPU_WORKLOADS)]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME", help="paths and workloads to run"
    )
    parser.add_argument(
        "--parallel",
        type=int,
        default=PARALLEL,
        help=f"jobs to run at a time if their speed does not count, here by default {PARALLEL}; with 1, the speeds of "
        "the paths are reported, too",
    )
    options = parser.parse_args(arguments)
    chosen = Chosen.by_name(options.only)
    cards = cards_here()
    print("\n".join(plan(chosen, cards, DATA.is_dir(), options.minutes)), flush=True)
    return _accept(chosen, cards, options.minutes * 60, options.parallel) if cards else NO_GPU


@dataclass(frozen=True)
class Chosen:
    """Paths and workloads to run."""

    paths: Sequence[GpuPath]
    workloads: Sequence[Workload]

    @classmethod
    def by_name(cls, names: Collection[str]) -> Chosen:
        """Return those of these names, and the paths that they are compared with."""
        needed = set(names)
        # A reference runs before its path, and may have a reference, too.
        for path in reversed(PATHS):
            needed |= {path.reference} if path.name in needed else set()
        paths = [path for path in PATHS if path.name in needed]
        return cls(paths, [each for each in runnable(GPU_WORKLOADS, DATA.is_dir()) if each.name in names])

    def notes(self) -> list[str]:
        """Return a note for a result file if anything was left out on purpose."""
        left_out = [each.name for each in PATHS if each not in self.paths]
        return [f"Not run, because --only chose others: {', '.join(left_out)}."] if left_out else []


def plan(chosen: Chosen, cards: Cards | None, has_rows: bool, minutes: float) -> list[str]:
    """Return the lines that say what will run, or would run on a GPU."""
    tense = "This command runs" if cards else "On a machine with one, this command would run"
    head = f"{cards.count} x {cards.name}." if cards else "This machine has no GPU that PyTorch can use."
    source = (
        f"the data in {DATA}, with random weights" if has_rows else "the data and weights that they name on the Hub"
    )
    lines = [f"{head} {tense}, in at most {minutes:g} minutes:"]
    if chosen.paths:
        lines += [
            "",
            "Short jobs with the demo's model or a small Llama; each evaluation loss is compared with a reference:",
        ]
    for path in chosen.paths:
        reason = cards.reason_against(path) if cards else ""
        lines.append(f"  {path.name}: {path.title}" + (f" (left out: {reason})" if reason else ""))
    if chosen.workloads:
        lines += ["", f"The workloads in their real sizes ({', '.join(SIDES)}), on {source}:"]
    lines += [f"  {each.name}: batch size {each.batch_size}" for each in chosen.workloads]
    if names := [each.name for each in chosen.workloads if each.quality == "eval_loss"]:
        lines += ["", f"The recipe and our defaults with {len(SEEDS)} seeds, to compare their losses:"]
        lines.append(f"  {', '.join(names)}")
    return lines if cards else [*lines, "", "Nothing was run."]


def _accept(chosen: Chosen, cards: Cards, seconds: float, parallel: int) -> int:
    whole, has_passed = Deadline(seconds), True
    with tempfile.TemporaryDirectory() as name:
        if chosen.paths:
            share = PATHS_SHARE if chosen.workloads else 1.0
            print("\nPaths:", flush=True)
            paths = try_paths(chosen.paths, cards, Path(name), Deadline(seconds * share), _echo, parallel)
            write("gpu-paths", paths.rows, [*paths.notes, *chosen.notes()])
            has_passed = paths.has_passed
        if chosen.workloads:
            print("\nWorkloads:", flush=True)
            workloads = measure_workloads(chosen.workloads, DATA.is_dir(), Path(name), whole, _echo, parallel)
            write("gpu-workloads", workloads.rows, workloads.notes)
            has_passed = has_passed and workloads.has_passed
    print("Everything is as expected." if has_passed else "Something differs: see docs/benchmarks.md.")
    return 0 if has_passed else 1


def _echo(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
