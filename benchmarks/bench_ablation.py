"""What each option for speed is worth: ours with one of them switched off, over ours."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.support.command import train
from benchmarks.support.data import check_data
from benchmarks.support.results import Row, measured, write
from benchmarks.support.workloads import WORKLOADS

ROUNDS = 2
CHOSEN = ("emotion", "squad")

OFF: dict[str, dict[str, str]] = {
    "everything padded (padding: max_length)": {"padding": "max_length"},
    "rows shuffled plainly (length_grouping: false, padding: longest)": {
        "length_grouping": "false",
        "padding": "longest",
    },
    "32-bit (precision: fp32)": {"precision": "fp32"},
    "scaled dot product attention (attention: sdpa)": {"attention": "sdpa"},
    "PyTorch's dropout (dropout: torch)": {"dropout": "torch"},
    "AdamW in many kernels (optimizer: adamw)": {"optimizer": "adamw"},
    "memory handed back (allocator: system)": {"allocator": "system"},
    "batches made by another process (dataloader_workers: 1)": {"dataloader_workers": "1"},
    "the loss read at every step (logging_steps: 1)": {"logging_steps": "1"},
    "one core (machine.cores: 1)": {"machine.cores": "1"},
}


def rate(folder: Path, fields: Mapping[str, str]) -> float:
    """Return the steady samples a second of one run."""
    return float(train(folder, fields).result()["throughput/steady_samples_per_second"])


def rows_of(name: str, fields: Mapping[str, str], folder: Path) -> list[Row]:
    """Return how many times faster ours is than ours without each option, run beside each other."""
    gains: dict[str, list[float]] = {option: [] for option in OFF}
    rates: list[float] = []
    for turn in range(ROUNDS):
        seed = {"seed": str(turn)}
        for option, off in OFF.items():
            ours = rate(folder, {**fields, **seed})
            rates.append(ours)
            gains[option].append(ours / rate(folder, {**fields, **seed, **off}))
            print(f"  {name}, round {turn}, {option}: {gains[option][-1]:.2f} x", file=sys.stderr, flush=True)
    rows = [measured(f"{name}: ours", rates, "samples/s")]
    return rows + [measured(f"{name}: instead of {option}", found, "x") for option, found in gains.items()]


def main(names: Sequence[str]) -> None:
    """Measure the named workloads, or those chosen, and write the ratios."""
    check_data()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for workload in WORKLOADS:
            if workload.name in (names or CHOSEN):
                longer = {"max_steps": str(3 * workload.samples // workload.batch_size)}
                rows += rows_of(workload.name, workload.fields(compiler="none", **longer), Path(folder))
    write(
        "ablation",
        rows,
        [f"Steady samples a second, MiniLM, {ROUNDS} rounds, each pair side by side."],
        is_part=bool(names),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
