"""Losses of the real-size models with our defaults and with the recipe, over several seeds: are ours higher?

One side trains as the published recipe does, but pads to the longest row of a batch: padding to the maximum length
would cost time and does not change the loss of a classifier. Within a pair of runs, the seed, and so the initial
weights, are the same; the order of the rows and the random numbers for dropout are not.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.support.command import train
from benchmarks.support.data import check_data
from benchmarks.support.equal_loss import loss_row
from benchmarks.support.results import Row, write
from benchmarks.support.workloads import REAL_SIZES, RECIPE, Workload

SEEDS = range(int(os.environ.get("BENCH_ROUNDS", 5)))
SIDES = {
    "recipe": {**RECIPE, "padding": "longest"},
    "defaults": {"compiler": "none"},
}
WORKLOADS = [workload for workload in REAL_SIZES if workload.quality == "eval_loss"]
"""Without question answering, whose loss depends on the padding."""
VALIDATION_ROWS = "200"


def losses(workload: Workload, folder: Path) -> dict[str, list[float]]:
    """Train both sides with each seed, in turn. Return the evaluation losses of each side."""
    measured: dict[str, list[float]] = {side: [] for side in SIDES}
    for seed in SEEDS:
        for side, fields in SIDES.items():
            more = {**fields, "seed": str(seed), "data.validation_rows": VALIDATION_ROWS}
            measured[side].append(float(train(folder, workload.fields(**more)).result()["eval_loss"]))
        latest = {side: round(values[-1], 4) for side, values in measured.items()}
        print(f"  {workload.name}, seed {seed}: {latest}", file=sys.stderr, flush=True)
    return measured


def rows(workload: Workload, measured: dict[str, list[float]]) -> list[Row]:
    """Return the mean difference of the sides, the largest for any one seed, and the spread of the recipe's losses."""
    name = f"{workload.name} ({workload.model})"
    pairs = list(zip(measured["defaults"], measured["recipe"], strict=True))
    mean = loss_row(f"{name}: loss of our defaults minus the recipe's, mean", measured["defaults"], measured["recipe"])
    if mean is None:
        sys.exit("error: BENCH_ROUNDS, the number of seeds, must be at least 2 for an interval.")
    return [
        mean,
        Row(
            name=f"{name}: loss of our defaults minus the recipe's, largest difference of one seed",
            value=max((ours - theirs for ours, theirs in pairs), key=abs),
            unit="nats",
            n=len(pairs),
        ),
        Row(
            name=f"{name}: loss of the recipe, standard deviation between seeds",
            value=statistics.stdev(measured["recipe"]),
            unit="nats",
            n=len(pairs),
        ),
    ]


def main(names: Sequence[str]) -> None:
    """Measure the named workloads, or all, and write the figures after each."""
    check_data()
    note = (
        f"Published batch sizes and learning rates, random weights, evaluated on {VALIDATION_ROWS} rows. "
        + "; ".join(f"{each.name} trains on {each.samples} samples" for each in WORKLOADS)
    )
    figures: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for workload in WORKLOADS:
            if workload.name in (names or [each.name for each in WORKLOADS]):
                figures += rows(workload, losses(workload, Path(folder)))
                write("seeds", figures, [f"{note}."], is_part=bool(names))


if __name__ == "__main__":
    main(sys.argv[1:])
