"""Speed beside processes that are always busy: our jobs, with and without a compiler, and a well-tuned plain script."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.support.command import train
from benchmarks.support.data import check_data
from benchmarks.support.results import Row, figure, write
from benchmarks.support.workloads import WORKLOADS
from benchmarks.tuning.plain_side import fastest_choice, plain

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 5))
BATCH, STEPS = 24, 60
STEPS_OF_SCRIPT = 20
"""Beside a busy process, the script's steps take up to thirty times as long."""


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep this number of processes busy all the time. They end with this process, however it ends."""
    code = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
    with ExitStack() as stack:
        for _ in range(count):
            command = [sys.executable, "-c", code]
            process = stack.enter_context(subprocess.Popen(command, start_new_session=True))
            stack.callback(process.kill)
        yield


def rows(name: str, rate: Callable[[], float], counts: Sequence[int], least: float | None = None) -> list[Row]:
    """Return a side's speed alone, and relative to it beside these numbers of busy processes.

    `least` is the target beside one process.
    """
    undisturbed: list[float] = []
    beside: dict[int, list[float]] = {count: [] for count in counts}
    for number in range(ROUNDS):
        undisturbed.append(rate())
        for count in counts:
            with busy_processes(count):
                beside[count].append(rate() / undisturbed[-1])
        latest = {count: round(values[-1], 3) for count, values in beside.items()}
        print(f"  round {number}: alone {undisturbed[-1]:.1f}, beside {latest}", file=sys.stderr, flush=True)
    figures = [figure(f"{name}, alone", undisturbed, "samples/s")]
    for count, values in beside.items():
        label = f"{name}: speed beside {count} busy process{'es' * (count > 1)} ÷ alone"
        figures.append(figure(label, values, "x", least=least if count == 1 else None))
    return figures


def rate(folder: Path, fields: Mapping[str, str]) -> float:
    """Train, and return the steady samples per second."""
    return float(train(folder, fields).result()["throughput/steady_samples_per_second"])


def main() -> None:
    """Measure each side in turns, and write the ratios."""
    check_data()
    workload = next(each for each in WORKLOADS if each.name == "emotion")
    figures: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, compiler, counts in (
            ("with inductor", "inductor", [1]),
            ("our defaults", "none", [1, 2 * len(os.sched_getaffinity(0))]),
        ):
            fields = workload.fields(max_steps=str(STEPS), compiler=compiler, batch_size=str(BATCH))
            job = train(folder, fields)  # The compiled programs, and a warm page cache.
            figures += rows(label, partial(rate, folder, fields), counts, least=0.5)
        choice = fastest_choice(job)
        figures += rows(
            "tuned Trainer",
            lambda: plain(job, choice, STEPS_OF_SCRIPT, evaluates=False)["samples_per_second"],
            [1],
        )
    write("neighbours", figures, [f"{ROUNDS} rounds. The tuned Trainer used {choice[0]} with {choice[1]} attention."])


if __name__ == "__main__":
    main()
