"""Each reference workload: the recipe as published, ours without a compiler and ours with it, on the same samples."""

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
from benchmarks.support.results import Row, measured, write
from benchmarks.support.workloads import REAL_SIZES, RECIPE, SMALL_ENCODER, Workload

LEAST_GAIN = 1.93
"""The published gain of the compiler with its bigger batch (SQuAD with ALBERT)."""
LEAST_EMOTION_GAIN = 80.0
LEAST_UTILISATION = 0.5

FILES = {"workloads": SMALL_ENCODER, "real_sizes": REAL_SIZES}
"""Result file to the workloads in it."""
NOTES = (
    "Recipe: padded to the recipe's length, fp32 (no fp16 on a processor), eager, PyTorch's own dropout and AdamW; "
    "ours: the experiment's defaults. Same rows, batch and seeds on every side; sides alternate.",
    "Utilisation counts real tokens only: 6 FLOP a multiplied parameter and token, attention left out, over the best "
    "2048-cubed matmul of the same precision measured just before.",
)

Runs = dict[str, list[Mapping[str, Any]]]


def sides(workload: Workload) -> dict[str, dict[str, str]]:
    """Return the fields that set the sides apart."""
    return {
        "recipe": {**RECIPE, **workload.recipe},
        "none": {"compiler": "none"},
        "inductor": {"compiler": "inductor"},
    }


def runs_of(workload: Workload, folder: Path) -> Runs:
    """Alternate the sides over the rounds."""
    found: Runs = {side: [] for side in sides(workload)}
    for seed in range(workload.rounds):
        for side, fields in sides(workload).items():
            found[side].append(train(folder, workload.fields(**fields, seed=str(seed))).result())
            print(f"  {workload.name}, {side}, seed {seed}", file=sys.stderr, flush=True)
    return found


def rows_of(workload: Workload, runs: Runs, peaks: Mapping[str, float]) -> list[Row]:
    """Return the workload's figures."""
    rows: list[Row] = []
    name = f"{workload.name} ({workload.model})"
    for side in runs:
        rows += _figures(f"{name}, {side}", workload, runs[side], peaks["fp32" if side == "recipe" else "bf16"])
    target = LEAST_EMOTION_GAIN if workload.name.startswith("emotion") else LEAST_GAIN
    for side in ("none", "inductor"):
        gains = _paired(runs, side, "throughput/steady_samples_per_second", lambda ours, theirs: ours / theirs)
        met = statistics.median(gains) >= target
        rows.append(measured(f"{name}, {side} over recipe", gains, "x", f"at least {target:g} x", met))
        apart = _paired(runs, side, workload.quality, lambda ours, theirs: ours - theirs)
        label = f"{name}, {side}: {workload.quality} above the recipe's"
        rows.append(measured(label, apart, "", *_alike(apart, workload.margin)))
    return rows


def _figures(name: str, workload: Workload, results: Sequence[Mapping[str, Any]], peak: float) -> list[Row]:
    def values(metric: str) -> list[float]:
        return [float(result[metric]) for result in results]

    used = [flops / peak for flops in values("throughput/model_flops_per_second")]
    enough = statistics.median(used) >= LEAST_UTILISATION
    target = None if name.endswith("recipe") else f"at least {LEAST_UTILISATION:g}"
    return [
        measured(f"{name}: samples", values("throughput/steady_samples_per_second"), "samples/s"),
        measured(f"{name}: real tokens", values("throughput/steady_tokens_per_second"), "tokens/s"),
        measured(f"{name}: {workload.quality} after {workload.samples} samples", values(workload.quality), ""),
        measured(f"{name}: utilisation", used, "of the matmul", target, enough if target else None),
    ]


def _alike(apart: Sequence[float], margin: float | None) -> tuple[str | None, bool | None]:
    """Return the target and whether it is met."""
    return (None, None) if margin is None else (f"within {margin:g}", abs(statistics.median(apart)) <= margin)


def _paired(runs: Runs, side: str, metric: str, relate: Any) -> list[float]:
    return [relate(ours[metric], theirs[metric]) for ours, theirs in zip(runs[side], runs["recipe"], strict=True)]


def main(names: Sequence[str]) -> None:
    """Run the named workloads, or all, and write their figures as they come."""
    check_data()
    with tempfile.TemporaryDirectory() as folder:
        for file, workloads in FILES.items():
            rows: list[Row] = []
            for workload in workloads:
                if not names or workload.name in names:
                    rows += _measured(workload, Path(folder))
                    write(file, rows, NOTES, is_part=bool(names))


def _measured(workload: Workload, folder: Path) -> list[Row]:
    peaks = {precision: peak_flops_per_second(precision) for precision in ("fp32", "bf16")}
    machine = [
        measured(f"{workload.name}: matmul, {precision}", [peak / 1e9], "GFLOP/s") for precision, peak in peaks.items()
    ]
    return [*machine, *rows_of(workload, runs_of(workload, folder), peaks)]


if __name__ == "__main__":
    main(sys.argv[1:])
