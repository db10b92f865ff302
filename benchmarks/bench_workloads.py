"""Speed of each reference workload: the published recipe, ours without a compiler, and ours with it."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.support.command import train
from benchmarks.support.data import check_data
from benchmarks.support.matmul_peak import peak_flops_per_second
from benchmarks.support.results import Row, median_row, write
from benchmarks.support.workloads import REAL_SIZES, RECIPE, SMALL_ENCODER, Workload

MIN_GAIN = 1.93
"""Published gain from the compiler with its larger batch (SQuAD with ALBERT)."""
MIN_EMOTION_GAIN = 80.0
MIN_UTILISATION, MIN_SMALL_UTILISATION = 0.5, 0.45
"""For models of base size and above, and for MiniLM."""

FILES = {"workloads": SMALL_ENCODER, "real_sizes": REAL_SIZES}
"""Workloads in each result file."""
NOTES = (
    "The recipe pads to its own length and uses fp32 (a CPU has no fp16), eager attention, and PyTorch's dropout and "
    "AdamW. Ours are the experiment's defaults. All sides have the same rows, batch size and seeds, and alternate.",
    "Utilisation is the training's FLOP/s divided by that of the best product of two 2048 x 2048 matrices in the same "
    "precision, measured just before. A training needs 6 FLOP for each multiplied parameter and real token. With "
    "attention, its products count too: 12 FLOP for each layer, hidden unit and pair of tokens of a row. These few "
    "steps include slow first ones.",
)

Runs = dict[str, list[Mapping[str, Any]]]


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
    rows: list[Row] = []
    name = f"{workload.name} ({workload.model})"
    for side in runs:
        rows += _figures(f"{name}, {side}", workload, runs[side], peaks["fp32" if side == "recipe" else "bf16"])
    target = MIN_EMOTION_GAIN if workload.name.startswith("emotion") else MIN_GAIN
    for side in [side for side in runs if side != "recipe"]:
        gains = _compare_with_recipe(
            runs, side, "throughput/steady_samples_per_second", lambda ours, theirs: ours / theirs
        )
        met = statistics.median(gains) >= target
        rows.append(median_row(f"{name}, {side}: speed-up over the recipe", gains, "x", f"at least {target:g} x", met))
        differences = _compare_with_recipe(runs, side, workload.quality, lambda ours, theirs: ours - theirs)
        label = f"{name}, {side}: {workload.quality} minus the recipe's"
        rows.append(median_row(label, differences, "", *_within(differences, workload.margin)))
    return rows


def _figures(name: str, workload: Workload, results: Sequence[Mapping[str, Any]], peak: float) -> list[Row]:
    def values(metric: str) -> list[float]:
        return [float(result[metric]) for result in results]

    utilisation = [flops / peak for flops in values("throughput/model_flops_per_second")]
    with_attention = [flops / peak for flops in values("throughput/model_flops_with_attention_per_second")]
    least = MIN_SMALL_UTILISATION if workload.model == "MiniLM" else MIN_UTILISATION
    is_enough = statistics.median(utilisation) >= least
    target = None if name.endswith("recipe") else f"at least {least:g}"
    return [
        median_row(f"{name}: samples", values("throughput/steady_samples_per_second"), "samples/s"),
        median_row(f"{name}: real tokens", values("throughput/steady_tokens_per_second"), "tokens/s"),
        median_row(f"{name}: {workload.quality} after {workload.samples} samples", values(workload.quality), ""),
        median_row(f"{name}: utilisation", utilisation, "of the matmul peak", target, is_enough if target else None),
        median_row(f"{name}: utilisation with attention", with_attention, "of the matmul peak"),
    ]


def _within(differences: Sequence[float], margin: float | None) -> tuple[str | None, bool | None]:
    """Return the target's description and whether it is met; None for both without a margin."""
    return (None, None) if margin is None else (f"within {margin:g}", abs(statistics.median(differences)) <= margin)


def _compare_with_recipe(runs: Runs, side: str, metric: str, relate: Any) -> list[float]:
    return [relate(ours[metric], theirs[metric]) for ours, theirs in zip(runs[side], runs["recipe"], strict=True)]


def main(names: Sequence[str]) -> None:
    """Run the named workloads, or all, and write the figures after each workload."""
    check_data()
    with tempfile.TemporaryDirectory() as folder:
        for file, workloads in FILES.items():
            rows: list[Row] = []
            for workload in workloads:
                if not names or workload.name in names:
                    rows += _run_workload(workload, Path(folder))
                    write(file, rows, NOTES, is_part=bool(names))


def _run_workload(workload: Workload, folder: Path) -> list[Row]:
    peaks = {precision: peak_flops_per_second(precision) for precision in ("fp32", "bf16")}
    machine = [
        median_row(f"{workload.name}: matmul, {precision}", [peak / 1e9], "GFLOP/s")
        for precision, peak in peaks.items()
    ]
    return [*machine, *result_rows(workload, run_sides(workload, folder), peaks)]


if __name__ == "__main__":
    main(sys.argv[1:])
