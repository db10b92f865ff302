"""Speed of each reference workload: the published recipe, ours without a compiler, and ours with it.

`python -m benchmarks.bench_workloads [NAME ...]` runs the named workloads, or all.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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


SIDES = {"recipe": RECIPE, "ours uncompiled": {"compiler": "none"}, "ours with inductor": {"compiler": "inductor"}}
"""Fields that differ between the sides."""
RATE = "throughput/steady_samples_per_second"


def run_sides(workload: Workload, folder: Path) -> Runs:
    """Run the sides alternately for all rounds."""
    runs: Runs = {side: [] for side in SIDES}
    for seed in range(workload.rounds):
        for side, fields in SIDES.items():
            own = {**fields, **(workload.recipe if side == "recipe" else {}), "seed": str(seed)}
            runs[side].append(train(folder, workload.fields(**own)).result())
            print(f"  {workload.name}, {side}, seed {seed}", file=sys.stderr, flush=True)
    return runs


def result_rows(workload: Workload, runs: Runs) -> Iterator[Row]:
    """Yield the workload's figures."""
    peaks = {precision: peak_flops_per_second(precision) for precision in ("fp32", "bf16")}
    yield from (figure(f"{workload.name}: matmul, {each}", peak / 1e9, "GFLOP/s") for each, peak in peaks.items())
    quality, margin = workload.quality, workload.margin
    utilisation = MIN_SMALL_UTILISATION if workload.model == "MiniLM" else MIN_UTILISATION
    gain = MIN_EMOTION_GAIN if workload.name.startswith("emotion") else MIN_GAIN
    for side, results in runs.items():
        name, is_ours = f"{workload.name} ({workload.model}), {side}", side != "recipe"
        peak = peaks["bf16" if is_ours else "fp32"]
        yield figure(f"{name}: samples", [each[RATE] for each in results], "samples/s")
        tokens = [each["throughput/steady_tokens_per_second"] for each in results]
        yield figure(f"{name}: real tokens", tokens, "tokens/s")
        yield figure(f"{name}: {quality} after {workload.samples} samples", [each[quality] for each in results], "")
        shares = [each["throughput/model_flops_per_second"] / peak for each in results]
        yield figure(f"{name}: utilisation", shares, "of the matmul peak", least=utilisation if is_ours else None)
        if is_ours:
            pairs = list(zip(results, runs["recipe"], strict=True))
            gains = [ours[RATE] / theirs[RATE] for ours, theirs in pairs]
            yield figure(f"{name}: speed-up over the recipe", gains, "x", least=gain)
            differences = [ours[quality] - theirs[quality] for ours, theirs in pairs]
            least = None if margin is None else -margin
            yield figure(f"{name}: {quality} minus the recipe's", differences, "", least=least, most=margin)


def main(names: Sequence[str]) -> None:
    """Run the named workloads, or all, and write the figures after each."""
    check_data()
    with tempfile.TemporaryDirectory() as folder:
        for file, workloads in FILES.items():
            rows: list[Row] = []
            for workload in workloads:
                if not names or workload.name in names:
                    rows += result_rows(workload, run_sides(workload, Path(folder)))
                    write(file, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
