"""Speed of a job that adapts its threads: alone, and beside processes that are always busy."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.support.command import train
from benchmarks.support.data import check_data
from benchmarks.support.neighbour import busy_processes
from benchmarks.support.results import Row, median_row, write
from benchmarks.support.workloads import WORKLOADS

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 5))
STEPS = 60
MOST_LOST = 0.03
LEAST_KEPT = 0.55


def measured(folder: Path, fields: Mapping[str, str], neighbours: int) -> tuple[float, float]:
    """Train beside this number of busy processes. Return the steady samples per second, and the changes of threads."""
    with busy_processes(neighbours):
        result = train(folder, fields).result()
    return float(result["throughput/steady_samples_per_second"]), float(result.get("machine/thread_changes", 0.0))


def main() -> None:
    """Measure jobs that adapt their threads and jobs with fixed threads in turn, and write the ratios."""
    check_data()
    cpus = len(os.sched_getaffinity(0))
    workload = next(each for each in WORKLOADS if each.name == "emotion")
    adapting = workload.fields(max_steps=str(STEPS), compiler="none", batch_size="16")
    fixed = {**adapting, "machine.cores": str(cpus)}
    names = ("alone", "beside 1 busy process", f"beside {2 * cpus} busy processes")
    counts = dict(zip(names, (0, 1, 2 * cpus), strict=True))
    ratios: dict[str, list[float]] = {name: [] for name in names}
    unadapted: list[float] = []
    changes: list[float] = []
    rates: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(folder, adapting)  # The trial of `auto`, and a warm page cache.
        for number in range(ROUNDS):
            rate, changed = measured(folder, adapting, 0)
            fixed_rate, _ = measured(folder, fixed, 0)
            rates.append(rate)
            changes.append(changed)
            ratios["alone"].append(rate / fixed_rate)
            for beside in names[1:]:
                ratios[beside].append(measured(folder, adapting, counts[beside])[0] / rate)
            if number == 0:
                # Fixed threads beside busy processes take minutes.
                unadapted.append(measured(folder, {**fixed, "max_steps": str(STEPS // 4)}, 1)[0] / fixed_rate)
            latest = ", ".join(f"{beside} {values[-1]:.2f}" for beside, values in ratios.items())
            print(f"  round {number}: {latest}", file=sys.stderr, flush=True)
    rows = [median_row("alone: adapting", rates, "samples/s"), _row(ratios["alone"], "alone: adapting / fixed threads")]
    rows += [median_row("alone: changes of the number of threads", changes, "changes")]
    for beside in names[1:]:
        rows.append(_row(ratios[beside], f"{beside}: rate / alone", has_target=counts[beside] == 1, least=LEAST_KEPT))
    rows.append(median_row(f"{names[1]}: rate / alone, with fixed threads", unadapted, "x"))
    write(
        "neighbours",
        rows,
        [
            f"Steady samples per second of MiniLM on the emotion data, batch 16, {STEPS} steps, {cpus} CPUs, {ROUNDS} "
            "rounds. Jobs with fixed threads have `machine.cores`. The busy processes run from before the job's start."
        ],
    )


def _row(values: list[float], name: str, *, has_target: bool = True, least: float = 1 - MOST_LOST) -> Row:
    row = median_row(name, values, "x")
    if not has_target:
        return row
    return median_row(name, values, "x", target=f"at least {least:g}", met=row.value >= least)


if __name__ == "__main__":
    main()
