"""The workloads at full size on a GPU: with the published recipe, and with our defaults under each compiler setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.support.workloads import REAL_SIZES, RECIPE, SMALL_ENCODER, Workload

STEPS, WARM_UP_STEPS = 25, 5
PUBLISHED_GAIN = 1.93
"""Published gain of SQuAD with ALBERT over the recipe, compiled and with a larger batch."""
FIRST_SEED = 42
"""Seed of the trainings whose speed is measured."""
ROWS = {"data.train_rows": "2000", "data.validation_rows": "200"}
WITHDRAWN = frozenset({"reviews-distilbert"})
"""Workloads whose data sets are no longer on the Hub."""
SIDES: Mapping[str, Mapping[str, str]] = {
    # The publications used fp16 on V100 and T4.
    "recipe": {**RECIPE, "precision": "fp16"},
    "ours uncompiled": {"compiler": "none", "padding": "auto"},
    "ours with inductor": {"compiler": "inductor", "padding": "auto"},
    "ours with CUDA graphs": {"compiler": "inductor", "compile_mode": "reduce-overhead", "padding": "auto"},
}
OURS = tuple(side for side in SIDES if side != "recipe")
GPU_WORKLOADS = (
    *REAL_SIZES,
    *(replace(each, batch_size=10, rounds=1) for each in SMALL_ENCODER if each.name == "sst2-gpt2"),
)
"""The workloads at their real model sizes. GPT-2 always has its real size, and here its published batch size too."""


def runnable(workloads: Sequence[Workload], has_rows: bool) -> list[Workload]:
    """Return the workloads whose data this machine can get: from the shared rows or the Hub."""
    return [each for each in workloads if has_rows or each.name not in WITHDRAWN]


def least_gain(workload: str, side: str) -> float:
    """Return the least speed relative to the recipe's that a side must reach.

    None may be slower. The published gain is required only of the workload that it was measured with, see
    docs/decisions/0021.
    """
    return PUBLISHED_GAIN if (workload, side) == ("squad-albert", "ours with inductor") else 1.0


def side_fields(workload: Workload, side: str, has_rows: bool, seed: int = FIRST_SEED) -> dict[str, str]:
    """Return the fields of one side.

    With the shared rows, the weights are random. Without them, the experiment names both on the Hub.
    """
    own = {
        **ROWS,
        **SIDES[side],
        **(workload.recipe if side == "recipe" else {}),
        "max_steps": str(STEPS),
        "steady_after_steps": str(WARM_UP_STEPS),
        "seed": str(seed),
        "machine.devices": "1",
    }
    fields = workload.fields(**own)
    if has_rows:
        return fields
    local = {*workload.data, "data.train", "data.validation"} - own.keys()
    return {name: value for name, value in fields.items() if name not in local}
