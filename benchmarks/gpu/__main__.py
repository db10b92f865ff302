"""`python -m benchmarks.gpu [--minutes N] [--only NAME...] [--parallel N]`, which `make accept-gpu` calls."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.gpu.paths import PATHS, Cards, Deadline, Findings, GpuPath, Record, cards_here, try_paths
from benchmarks.gpu.workloads import AUTOTUNED, COMPARED, GPU_WORKLOADS, SEEDS, SPEEDS, Trainings, runnable
from benchmarks.support.results import Row, write
from benchmarks.support.workloads import DATA, Workload

MINUTES, SHORT_MINUTES = 30, 4
"""Default time limits: of everything, and with `--only`."""
PATHS_SHARE = 0.25
"""Share of the time limit that the paths may use. The workloads need the rest: on an H100, the 24 measurements of their
speed take 16 minutes; the 32 trainings for their losses run several at a time."""
PARALLEL = max(1, min(8, len(os.sched_getaffinity(0)) // 2))
"""Default number of jobs to run at once where their speed is not measured. A job's start keeps two cores busy and
takes longer than its training."""
NO_GPU = 2
WITH_LOSSES = [each for each in GPU_WORKLOADS if each.quality == "eval_loss"]
NAMES = [
    *(path.name for path in PATHS),
    *(each.name for each in GPU_WORKLOADS),
    *(f"{each.name}-losses" for each in WITH_LOSSES),
]
MORE_NAMES = [f"{each.name}-autotuned" for each in GPU_WORKLOADS]
"""Names of what runs only if `--only` names it: autotuning takes minutes."""


def main(arguments: Sequence[str]) -> int:
    """Run the acceptance. Return 0 if everything is as expected, 1 if anything differs, 2 without a GPU."""
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description="Acceptance on a machine with NVIDIA GPUs.")
    limits = f"time limit, by default {MINUTES}, and with --only {SHORT_MINUTES}"
    parser.add_argument("--minutes", type=float, help=limits)
    parser.add_argument(
        "--only", nargs="+", choices=[*NAMES, *MORE_NAMES], metavar="NAME", help="what to run, by default everything"
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
    only, minutes = options.only or NAMES, options.minutes or (SHORT_MINUTES if options.only else MINUTES)
    needed = set(only)
    for path in reversed(PATHS):  # a reference runs before its path, and may have a reference, too
        needed |= {path.reference} if path.name in needed else set()
    paths = [path for path in PATHS if path.name in needed]
    has_rows = DATA.is_dir()
    speeds, losses, autotuned = (
        [each for each in runnable(GPU_WORKLOADS, has_rows) if f"{each.name}{part}" in only]
        for part in ("", "-losses", "-autotuned")
    )
    if not (paths or speeds or losses or autotuned):
        print(f"Nothing of {', '.join(only)} was run: the data is no longer on the Hub.", file=sys.stderr)
        return 1
    cards = cards_here()
    print("\n".join(plan(paths, (speeds, losses, autotuned), cards, minutes)), flush=True)
    if not cards:
        return NO_GPU
    whole, has_passed = Deadline(minutes * 60), True
    with tempfile.TemporaryDirectory() as name:
        if paths:
            share = PATHS_SHARE if speeds or losses or autotuned else 1.0
            record = recording("gpu-paths", [f"{cards.count} x {cards.name}."])
            print("\nPaths:", flush=True)
            has_passed = try_paths(paths, cards, Path(name), Deadline(minutes * 60 * share), record, options.parallel)
        if speeds or losses or autotuned:
            source = "Weights are random." if has_rows else "Weights and rows are the published ones, from the Hub."
            findings = Findings(recording("gpu-workloads", [source]))
            print("\nWorkloads:", flush=True)
            Trainings(
                has_rows=has_rows, folder=Path(name), deadline=whole, findings=findings, parallel=options.parallel
            ).measure(speeds, losses, autotuned)
            has_passed = has_passed and findings.has_passed
    print("Everything is as expected." if has_passed else "Something differs: see docs/benchmarks.md.")
    return 0 if has_passed else 1


def recording(name: str, common: Sequence[str]) -> Record:
    """Return a function that prints notes and writes them, the `common` ones and the rows to a result file at once."""

    def record(rows: Sequence[Row], notes: Sequence[str]) -> None:
        print("".join(f"  {note}\n" for note in notes), end="", flush=True)
        write(name, rows, [*common, *notes], appends=True)

    return record


def plan(
    paths: Sequence[GpuPath], parts: Sequence[Sequence[Workload]], cards: Cards | None, minutes: float
) -> Iterator[str]:
    """Yield the lines that say what will run, or would run on a GPU. The parts are speeds, losses and autotuning."""
    tense = "This command runs" if cards else "On a machine with one, this command would run"
    head = f"{cards.count} x {cards.name}." if cards else "This machine has no GPU that PyTorch can use."
    yield f"{head} {tense}, in at most {minutes:g} minutes:"
    if paths:
        yield "\nShort jobs with the demo's model or a small Llama; each evaluation loss is compared with a reference:"
    for path in paths:
        reason = cards.reason_against(path) if cards else ""
        yield f"  {path.name}: {path.title}" + (f" (left out: {reason})" if reason else "")
    local, hub = f"the data in {DATA}, with random weights", "the data and weights that they name on the Hub"
    if any(parts):
        yield f"\nThe workloads in their real sizes, on {local if DATA.is_dir() else hub}:"
    titles = (", ".join(SPEEDS), f"losses with {len(SEEDS)} seeds, {' and '.join(COMPARED)}", " and ".join(AUTOTUNED))
    for title, part in zip(titles, parts, strict=True):
        yield from (f"  {each.name}: batch size {each.batch_size}; {title}" for each in part)
    yield f"\nEach result is written at once. To run one part in {SHORT_MINUTES} minutes: make accept-gpu ONLY=NAME"
    yield f"NAME may also be {', '.join(MORE_NAMES)}."
    if not cards:
        yield "\nNothing was run."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
