"""Speed-up from each optimisation: our defaults, compared with our defaults without this optimisation."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.support.command import train
from benchmarks.support.data import check_data
from benchmarks.support.results import Row, median_row, write
from benchmarks.support.workloads import WORKLOADS

ROUNDS = 2
CHOSEN = ("emotion", "squad")

OFF: dict[str, dict[str, str]] = {
    "padding everything (padding: max_length)": {"padding": "max_length"},
    "plain shuffling (length_grouping: false, padding: longest)": {
        "length_grouping": "false",
        "padding": "longest",
    },
    "32-bit precision (precision: fp32)": {"precision": "fp32"},
    "scaled dot product attention (attention: sdpa)": {"attention": "sdpa"},
    "PyTorch's dropout (dropout: torch)": {"dropout": "torch"},
    "unfused AdamW (optimizer: adamw)": {"optimizer": "adamw"},
    "the system's allocator (allocator: system)": {"allocator": "system"},
    "a data worker process (dataloader_workers: 1)": {"dataloader_workers": "1"},
    "reading the loss at every step (logging_steps: 1)": {"logging_steps": "1"},
    "one core (machine.cores: 1)": {"machine.cores": "1"},
}


def rate(folder: Path, fields: Mapping[str, str]) -> float:
    """Train once and return the steady samples per second."""
    return float(train(folder, fields).result()["throughput/steady_samples_per_second"])


def result_rows(name: str, fields: Mapping[str, str], folder: Path) -> list[Row]:
    """Measure the speed-up from each option in turn. The two runs of a pair follow each other."""
    gains: dict[str, list[float]] = {option: [] for option in OFF}
    rates: list[float] = []
    for round_number in range(ROUNDS):
        seed = {"seed": str(round_number)}
        for option, off in OFF.items():
            ours = rate(folder, {**fields, **seed})
            rates.append(ours)
            gains[option].append(ours / rate(folder, {**fields, **seed, **off}))
            print(f"  {name}, round {round_number}, {option}: {gains[option][-1]:.2f} x", file=sys.stderr, flush=True)
    rows = [median_row(f"{name}: our defaults", rates, "samples/s")]
    return rows + [median_row(f"{name}: speed-up over {option}", ratios, "x") for option, ratios in gains.items()]


def main(names: Sequence[str]) -> None:
    """Measure the named workloads, or the default ones, and write the ratios."""
    check_data()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for workload in WORKLOADS:
            if workload.name in (names or CHOSEN):
                longer = {"max_steps": str(3 * workload.samples // workload.batch_size)}
                rows += result_rows(workload.name, workload.fields(compiler="none", **longer), Path(folder))
    write(
        "ablation",
        rows,
        [f"Steady samples per second, MiniLM, {ROUNDS} rounds. The two runs of a pair follow each other."],
        is_part=bool(names),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
