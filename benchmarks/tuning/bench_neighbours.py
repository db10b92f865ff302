"""Speed beside processes that are always busy: our jobs, with and without a compiler, and a well-tuned plain script."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.support.command import train
from benchmarks.support.data import check_data
from benchmarks.support.neighbour import busy_processes
from benchmarks.support.results import Row, median_row, write
from benchmarks.support.workloads import WORKLOADS
from benchmarks.tuning.plain_side import fastest_choice, plain

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 5))
BATCH, STEPS = 24, 60
STEPS_OF_SCRIPT = 20
"""Beside a busy process, the script's steps take up to thirty times as long."""
LEAST_KEPT = 0.5


class Ours:
    """Jobs with our defaults."""

    def __init__(self, folder: Path, compiler: str) -> None:
        workload = next(each for each in WORKLOADS if each.name == "emotion")
        self._folder = folder
        self.fields = workload.fields(max_steps=str(STEPS), compiler=compiler, batch_size=str(BATCH))

    def rate(self) -> float:
        """Train, and return the steady samples per second."""
        return float(train(self._folder, self.fields).result()["throughput/steady_samples_per_second"])


def ratios(rate: Callable[[], float], counts: list[int]) -> tuple[list[float], dict[int, list[float]]]:
    """Return the rates alone, and the rates beside these numbers of busy processes relative to them."""
    undisturbed: list[float] = []
    beside: dict[int, list[float]] = {count: [] for count in counts}
    for number in range(ROUNDS):
        undisturbed.append(rate())
        for count in counts:
            with busy_processes(count):
                beside[count].append(rate() / undisturbed[-1])
        latest = {count: round(values[-1], 3) for count, values in beside.items()}
        print(f"  round {number}: alone {undisturbed[-1]:.1f}, beside {latest}", file=sys.stderr, flush=True)
    return undisturbed, beside


def rows(name: str, undisturbed: list[float], beside: dict[int, list[float]], *, is_ours: bool = True) -> list[Row]:
    """Return the figures of one side. Ours has a target beside one process."""
    figures = [median_row(f"{name}, alone", undisturbed, "samples/s")]
    for count, values in beside.items():
        figure = median_row(f"{name}: speed beside {count} busy process{'es' * (count > 1)} ÷ alone", values, "x")
        if is_ours and count == 1:
            figure = median_row(figure.name, values, "x", f"at least {LEAST_KEPT:g}", figure.value >= LEAST_KEPT)
        figures.append(figure)
    return figures


def main() -> None:
    """Measure each side in turns, and write the ratios."""
    check_data()
    cpus = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours, compiled = Ours(folder, "none"), Ours(folder, "inductor")
        figures = []
        for label, side in (("our defaults", ours), ("with inductor", compiled)):
            side.rate()  # The compiled programs, and a warm page cache.
            counts = [1, 2 * cpus] if side is ours else [1]
            figures += rows(label, *ratios(side.rate, counts))
        job, steps = train(folder, ours.fields), STEPS_OF_SCRIPT
        choice = fastest_choice(job)
        script = ratios(lambda: plain(job, choice, steps, evaluates=False)["samples_per_second"], [1])
        figures += rows("tuned Trainer", *script, is_ours=False)
    note = (
        f"Samples per second, after warm-up, of MiniLM on the emotion data, batch size {BATCH}, {STEPS} steps ({steps} "
        f"for the script of `tuned_trainer`, here in {choice[0]} with {choice[1]} attention), {cpus} CPUs, {ROUNDS} "
        "rounds. The busy processes start before the job."
    )
    write("neighbours", figures, [note])


if __name__ == "__main__":
    main()
