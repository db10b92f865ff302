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
PATHS_SHARE = 0.25
"""Share of the time limit that the paths may use. The workloads need the rest: on an H100, the 24 measurements of their
speed take 16 minutes; the 32 trainings for their losses run several at a time."""
PARALLEL = max(1, min(8, len(os.sched_getaffinity(0)) // 2))
"""Default number of jobs to run at once where their speed is not measured. A job's start keeps two cores busy and
takes longer than its training."""
NO_GPU = 2


def main(arguments: Sequence[str]) -> int:
    """Run the acceptance. Return 0 if everything is as expected, 1 if anything differs, 2 without a GPU."""
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
        help=f"jobs to run at once where their speed is not measured, here by default {PARALLEL}; with 1, the speeds "
        "of the paths are reported, too",
    )
    options = parser.parse_args(arguments)
    if options.parallel < 1:
        parser.error(f"--parallel is {options.parallel}; it must be at least 1.")
    has_rows = DATA.is_dir()
    chosen = Chosen.by_name(options.only, has_rows)
    if not chosen.paths and not chosen.workloads:
        print("\n".join(chosen.withdrawn_notes()), file=sys.stderr)
        return 1
    cards = cards_here()
    print("\n".join(plan(chosen, cards, has_rows, options.minutes)), flush=True)
    return _accept(chosen, cards, options.minutes * 60, options.parallel) if cards else NO_GPU


@dataclass(frozen=True)
class Chosen:
    """Paths and workloads to run."""

    paths: Sequence[GpuPath]
    workloads: Sequence[Workload]
    withdrawn: Sequence[str] = ()
    """Names of workloads that were asked for, but whose data this machine cannot get."""

    @classmethod
    def by_name(cls, names: Collection[str], has_rows: bool) -> Chosen:
        """Return those of these names, and the paths that they are compared with."""
        needed = set(names)
        # A reference runs before its path, and may have a reference, too.
        for path in reversed(PATHS):
            needed |= {path.reference} if path.name in needed else set()
        paths = [path for path in PATHS if path.name in needed]
        workloads = [each for each in GPU_WORKLOADS if each.name in names]
        possible = runnable(workloads, has_rows)
        return cls(paths, possible, [each.name for each in workloads if each not in possible])

    def path_notes(self) -> list[str]:
        """Return a note for the result file of the paths if `--only` left any out."""
        return _left_out([each.name for each in PATHS if each not in self.paths])

    def workload_notes(self) -> list[str]:
        """Return the notes for the result file of the workloads about those that do not run."""
        names = [*(each.name for each in self.workloads), *self.withdrawn]
        return [*self.withdrawn_notes(), *_left_out([each.name for each in GPU_WORKLOADS if each.name not in names])]

    def withdrawn_notes(self) -> list[str]:
        """Return a note for each workload without data."""
        return [f"{name} was not run: its data is no longer on the Hub." for name in self.withdrawn]


def _left_out(names: Sequence[str]) -> list[str]:
    return [f"Not run, because --only chose others: {', '.join(names)}."] if names else []


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
            write("gpu-paths", paths.rows, [*paths.notes, *chosen.path_notes()])
            has_passed = paths.has_passed
        if chosen.workloads:
            print("\nWorkloads:", flush=True)
            workloads = measure_workloads(chosen.workloads, DATA.is_dir(), Path(name), whole, _echo, parallel)
            write("gpu-workloads", workloads.rows, [*workloads.notes, *chosen.workload_notes()])
            has_passed = has_passed and workloads.has_passed
    print("Everything is as expected." if has_passed else "Something differs: see docs/benchmarks.md.")
    return 0 if has_passed else 1


def _echo(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
