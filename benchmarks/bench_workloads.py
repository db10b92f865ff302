"""Speed of each reference workload: the published recipe, ours without a compiler, and ours with it.

`python -m benchmarks.bench_workloads [NAME ...]` runs the named workloads, or all.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.support.command import train
from benchmarks.support.results import Row, figure, write
from benchmarks.support.workloads import REAL_SIZES, RECIPE, SMALL_ENCODER, Workload, check_data

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
MATRIX_SIDES = {"cpu": 2048, "cuda": 8192}
RATE = "throughput/steady_tokens_per_second"
"""Real tokens, without padding: sides group rows by length or not, so their measured rows differ in length."""


def run_sides(workload: Workload, folder: Path) -> Runs:
    """Run the sides alternately for all rounds."""
    runs: Runs = {side: [] for side in SIDES}
    for seed in range(workload.rounds):
        for side, fields in SIDES.items():
            own = {**fields, **(workload.recipe if side == "recipe" else {}), "seed": str(seed)}
            runs[side].append(train(folder, workload.fields(**own)).metrics)
            print(f"  {workload.name}, {side}, seed {seed}", file=sys.stderr, flush=True)
    return runs


def matmul_flops_per_second(precision: str, device: str = "cpu") -> float:
    """Return a device's best FLOP/s in products of two square matrices: the reference for utilisation.

    It is measured in a process of its own, which gives the memory back.
    """
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        return pool.submit(_best_product, precision, device).result()


def _best_product(precision: str, device: str) -> float:
    import torch
    from torch.utils.benchmark import Timer

    kind, side = {"bf16": torch.bfloat16, "fp32": torch.float32}[precision], MATRIX_SIDES[device]
    left, right = (torch.randn(side, side, device=device).to(kind) for _ in range(2))
    timer = Timer("left @ right", globals={"left": left, "right": right}, num_threads=torch.get_num_threads())
    return 2 * side**3 / min(float(timer.timeit(1).mean) for _ in range(9))


def result_rows(workload: Workload, runs: Runs) -> Iterator[Row]:
    peaks = {each: matmul_flops_per_second(each) for each in ("fp32", "bf16")}
    yield from (figure(f"{workload.name}: matmul, {each}", peak / 1e9, "GFLOP/s") for each, peak in peaks.items())
    quality, margin = workload.quality, workload.margin
    utilisation = MIN_SMALL_UTILISATION if workload.model == "MiniLM" else MIN_UTILISATION
    gain = MIN_EMOTION_GAIN if workload.name.startswith("emotion") else MIN_GAIN
    for side, results in runs.items():
        name, is_ours = f"{workload.name} ({workload.model}), {side}", side != "recipe"
        peak = peaks["bf16" if is_ours else "fp32"]
        samples = [each["throughput/steady_samples_per_second"] for each in results]
        yield figure(f"{name}: samples", samples, "samples/s")
        yield figure(f"{name}: real tokens", [each[RATE] for each in results], "tokens/s")
        yield figure(f"{name}: {quality} after {workload.samples} samples", [each[quality] for each in results], "")
        shares = [each["throughput/model_flops_per_second"] / peak for each in results]
        yield figure(f"{name}: utilisation", shares, "of the matmul peak", least=utilisation if is_ours else None)
        if is_ours:
            pairs = list(zip(results, runs["recipe"], strict=True))
            gains = [ours[RATE] / theirs[RATE] for ours, theirs in pairs]
            yield figure(f"{name}: speed-up in real tokens", gains, "x", least=gain)
            differences = [ours[quality] - theirs[quality] for ours, theirs in pairs]
            least = None if margin is None else -margin
            yield figure(f"{name}: {quality} minus the recipe's", differences, "", least=least, most=margin)


def main(names: Sequence[str]) -> None:
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
