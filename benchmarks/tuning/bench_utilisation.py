"""Share of this machine's speed in matrix products that trainings with our defaults reach, once they are warm.

`bench_workloads` compares sides on a few steps, which include the first, slow ones. Users train for hundreds.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bench_workloads import MIN_SMALL_UTILISATION, MIN_UTILISATION
from benchmarks.support.command import train
from benchmarks.support.data import check_data
from benchmarks.support.matmul_peak import peak_flops_per_second
from benchmarks.support.results import Row, median_row, write
from benchmarks.support.workloads import WORKLOADS, Workload
from benchmarks.tuning.bench_tuned_trainer import PACKED

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 3))
STEPS = {
    "emotion": 100,
    "reviews": 60,
    "mnli": 60,
    "squad": 16,
    "sst2-gpt2": 10,
    "emotion-bert": 40,
    # With fewer, the first batches of each length, which are slow, would be most of the training.
    "squad-albert": 20,
}
"""Optimizer steps of each workload; others are left out."""
STEPS_TO_WARM_UP = 3


def shares(workload: Workload, folder: Path) -> tuple[list[float], list[float]]:
    """Train with the defaults, uncompiled. Return each round's utilisation without and with attention's products."""
    without, including = [], []
    for seed in range(ROUNDS):
        # The machine's speed changes over minutes.
        peak = max(map(peak_flops_per_second, ("fp32", "bf16")))
        steps = STEPS[workload.name]
        own = {"max_steps": str(steps), "steady_after_steps": str(STEPS_TO_WARM_UP), "seed": str(seed)}
        if "data.train_rows" in workload.data and workload.name not in PACKED:
            own["data.train_rows"] = str(steps * workload.batch_size)
        result = train(folder, workload.fields(**own, compiler="none")).result()
        without.append(result["throughput/model_flops_per_second"] / peak)
        including.append(result["throughput/model_flops_with_attention_per_second"] / peak)
        print(f"  {workload.name}, round {seed}: {without[-1]:.3f}", file=sys.stderr, flush=True)
    return without, including


def rows(workload: Workload, without: Sequence[float], including: Sequence[float]) -> list[Row]:
    """Return the figures of a workload."""
    name = f"{workload.name} ({workload.model})"
    least = MIN_SMALL_UTILISATION if workload.model == "MiniLM" else MIN_UTILISATION
    met = statistics.median(without) >= least
    return [
        median_row(f"{name}: utilisation", without, "of the matmul peak", f"at least {least:g}", met),
        median_row(f"{name}: utilisation with attention", including, "of the matmul peak"),
    ]


def main(names: Sequence[str]) -> None:
    """Measure the named workloads, or all, and write the figures after each."""
    check_data()
    note = (
        "Our defaults, uncompiled. Utilisation is the training's FLOP/s after the first "
        f"{STEPS_TO_WARM_UP} steps, divided by that of the best product of two 2048 x 2048 matrices in the faster of "
        "bf16 and fp32, measured just before. A training needs 6 FLOP for each multiplied parameter and real token. "
        "With attention, its products count too: 12 FLOP for each layer, hidden unit and pair of tokens of a row. "
        "Optimizer steps: " + ", ".join(f"{name} {steps}" for name, steps in STEPS.items()) + "."
    )
    figures: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for workload in WORKLOADS:
            if workload.name in (names or STEPS):
                figures += rows(workload, *shares(workload, Path(folder)))
                write("utilisation", figures, [note], is_part=bool(names))


if __name__ == "__main__":
    main(sys.argv[1:])
