"""`python -m benchmarks.gpu [--minutes N] [--only NAME...] [--parallel N]`, which `make accept-gpu` calls."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.gpu.paths import PATHS, Cards, Deadline, GpuPath, cards_here, try_paths
from benchmarks.gpu.workloads import GPU_WORKLOADS, SEEDS, SIDES, Trainings, runnable
from benchmarks.support.results import write
from benchmarks.support.workloads import DATA, Workload

MINUTES = 30
PATHS_SHARE = 0.25
"""Share of the time limit that the paths may use. The workloads need the rest: on an H100, the 24 measurements of their
speed take 16 minutes; the 32 trainings for their losses run several at a time."""
PARALLEL = max(1, min(8, len(os.sched_getaffinity(0)) // 2))
"""Default number of jobs to run at once where their speed is not measured. A job's start keeps two cores busy and
takes longer than its training."""
NO_GPU = 2
NAMES = [*(path.name for path in PATHS), *(workload.name for workload in GPU_WORKLOADS)]


def main(arguments: Sequence[str]) -> int:
    """Run the acceptance. Return 0 if everything is as expected, 1 if anything differs, 2 without a GPU."""
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description="Acceptance on a machine with NVIDIA GPUs.")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"time limit, by default {MINUTES}")
    parser.add_argument(
        "--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help="paths and workloads to run"
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
    paths = with_references(options.only)
    asked = [each for each in GPU_WORKLOADS if each.name in options.only]
    workloads = runnable(asked, DATA.is_dir())
    notes = [f"{each.name} was not run: its data is no longer on the Hub." for each in asked if each not in workloads]
    if not paths and not workloads:
        print("\n".join(notes), file=sys.stderr)
        return 1
    cards = cards_here()
    print("\n".join(plan(paths, workloads, cards, options.minutes)), flush=True)
    if not cards:
        return NO_GPU
    left_out = [each for each in NAMES if each not in options.only]
    notes += [f"--only left out {', '.join(left_out)}."] if left_out else []
    return _accept(paths, workloads, cards, options.minutes * 60, options.parallel, notes)


def with_references(names: Collection[str]) -> list[GpuPath]:
    """Return the paths of these names, and those that they are compared with."""
    needed = set(names)
    # A reference runs before its path, and may have a reference, too.
    for path in reversed(PATHS):
        needed |= {path.reference} if path.name in needed else set()
    return [path for path in PATHS if path.name in needed]


def plan(paths: Sequence[GpuPath], workloads: Sequence[Workload], cards: Cards | None, minutes: float) -> Iterator[str]:
    """Yield the lines that say what will run, or would run on a GPU."""
    tense = "This command runs" if cards else "On a machine with one, this command would run"
    head = f"{cards.count} x {cards.name}." if cards else "This machine has no GPU that PyTorch can use."
    yield f"{head} {tense}, in at most {minutes:g} minutes:"
    if paths:
        yield "\nShort jobs with the demo's model or a small Llama; each evaluation loss is compared with a reference:"
    for path in paths:
        reason = cards.reason_against(path) if cards else ""
        yield f"  {path.name}: {path.title}" + (f" (left out: {reason})" if reason else "")
    if workloads:
        local, hub = f"the data in {DATA}, with random weights", "the data and weights that they name on the Hub"
        yield f"\nThe workloads in their real sizes ({', '.join(SIDES)}), on {local if DATA.is_dir() else hub}:"
    yield from (f"  {each.name}: batch size {each.batch_size}" for each in workloads)
    if names := [each.name for each in workloads if each.quality == "eval_loss"]:
        yield f"\nThe recipe and our defaults with {len(SEEDS)} seeds, to compare their losses:\n  {', '.join(names)}"
    if not cards:
        yield "\nNothing was run."


def _accept(
    paths: Sequence[GpuPath],
    workloads: Sequence[Workload],
    cards: Cards,
    seconds: float,
    parallel: int,
    notes: list[str],
) -> int:
    whole, echo, has_passed = Deadline(seconds), partial(print, flush=True), True
    with tempfile.TemporaryDirectory() as name:
        if paths:
            own = Deadline(seconds * (PATHS_SHARE if workloads else 1.0))
            print("\nPaths:", flush=True)
            tried = try_paths(paths, cards, Path(name), own, echo, parallel)
            write("gpu-paths", tried.rows, [*tried.notes, *notes])
            has_passed = tried.has_passed
        if workloads:
            print("\nWorkloads:", flush=True)
            trainings = Trainings(
                has_rows=DATA.is_dir(), folder=Path(name), deadline=whole, echo=echo, parallel=parallel
            )
            measured = trainings.measure(workloads)
            write("gpu-workloads", measured.rows, [*measured.notes, *notes])
            has_passed = has_passed and measured.has_passed
    print("Everything is as expected." if has_passed else "Something differs: see docs/benchmarks.md.")
    return 0 if has_passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
