"""Speed of each reference workload: the published recipe, ours without a compiler, and ours with it.

`python -m benchmarks.bench_workloads [NAME ...]` runs the named workloads, or all.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.support.command import train
from benchmarks.support.data import check_data
from benchmarks.support.matmul_peak import peak_flops_per_second
from benchmarks.support.results import Row, figure, write
from benchmarks.support.workloads import REAL_SIZES, RECIPE, SMALL_ENCODER, Workload

MIN_GAIN = 1.93
"""Published gain from the compiler with its larger batch (SQuAD with ALBERT)."""
MIN_EMOTION_GAIN = 80.0
MIN_UTILISATION, MIN_SMALL_UTILISATION = 0.5, 0.45
"""For models of base size and above, and for MiniLM."""
FILES = {"workloads": SMALL_ENCODER, "real_sizes": REAL_SIZES}
"""Workloads in each result file."""

Runs = dict[str, list[Mapping[str, Any]]]
"""Results of each side, one for each seed."""


def sides(workload: Workload) -> dict[str, dict[str, str]]:
    """Return the fields that differ between the sides."""
    return {
        "recipe": {**RECIPE, **workload.recipe},
        "ours uncompiled": {"compiler": "none"},
        "ours with inductor": {"compiler": "inductor"},
    }


def run_sides(workload: Workload, folder: Path) -> Runs:
    """Run the sides alternately for all rounds."""
    runs: Runs = {side: [] for side in sides(workload)}
    for seed in range(workload.rounds):
        for side, fields in sides(workload).items():
            runs[side].append(train(folder, workload.fields(**fields, seed=str(seed))).result())
            print(f"  {workload.name}, {side}, seed {seed}", file=sys.stderr, flush=True)
    return runs


def result_rows(workload: Workload, runs: Runs, peaks: Mapping[str, float]) -> list[Row]:
    """Return the workload's figures."""
    name = f"{workload.name} ({workload.model})"
    rows = [figure(f"{workload.name}: matmul, {each}", peak / 1e9, "GFLOP/s") for each, peak in peaks.items()]
    for side, results in runs.items():
        rows += _side_rows(f"{name}, {side}", workload, results, peaks["fp32" if side == "recipe" else "bf16"])
    least = MIN_EMOTION_GAIN if workload.name.startswith("emotion") else MIN_GAIN
    for side in [side for side in runs if side != "recipe"]:
        pairs = list(zip(runs[side], runs["recipe"], strict=True))
        rate, quality = "throughput/steady_samples_per_second", workload.quality
        gains = [ours[rate] / theirs[rate] for ours, theirs in pairs]
        rows.append(figure(f"{name}, {side}: speed-up over the recipe", gains, "x", least=least))
        differences = [ours[quality] - theirs[quality] for ours, theirs in pairs]
        margin = workload.margin
        rows.append(
            figure(
                f"{name}, {side}: {quality} minus the recipe's",
                differences,
                "",
                least=margin and -margin,
                most=margin,
            )
        )
    return rows


def _side_rows(name: str, workload: Workload, results: Sequence[Mapping[str, Any]], peak: float) -> list[Row]:
    def values(metric: str, unit: float = 1.0) -> list[float]:
        return [float(result[metric]) / unit for result in results]

    least = MIN_SMALL_UTILISATION if workload.model == "MiniLM" else MIN_UTILISATION
    return [
        figure(f"{name}: samples", values("throughput/steady_samples_per_second"), "samples/s"),
        figure(f"{name}: real tokens", values("throughput/steady_tokens_per_second"), "tokens/s"),
        figure(f"{name}: {workload.quality} after {workload.samples} samples", values(workload.quality), ""),
        figure(
            f"{name}: utilisation",
            values("throughput/model_flops_per_second", peak),
            "of the matmul peak",
            least=None if name.endswith("recipe") else least,
        ),
    ]


def main(names: Sequence[str]) -> None:
    """Run the named workloads, or all, and write the figures after each."""
    check_data()
    with tempfile.TemporaryDirectory() as folder:
        for file, workloads in FILES.items():
            rows: list[Row] = []
            for workload in workloads:
                if not names or workload.name in names:
                    peaks = {precision: peak_flops_per_second(precision) for precision in ("fp32", "bf16")}
                    rows += result_rows(workload, run_sides(workload, Path(folder)), peaks)
                    write(file, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
