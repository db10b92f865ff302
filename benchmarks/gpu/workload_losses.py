"""Compare the losses of our defaults and of the recipe on a GPU, over several seeds.

One seed shows little: after a few steps from random weights, the losses of two seeds can differ by more than 0.1 nats.
The first seed is that of the trainings whose speed was measured. Of the others, only the losses count, so several of
them run at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.gpu.expectations import Reported
from benchmarks.gpu.jobs import NO_TIME, Deadline, Echo, Findings, reported_by
from benchmarks.gpu.workload_sides import FIRST_SEED, side_fields
from benchmarks.support.equal_loss import loss_row
from benchmarks.support.results import Row
from benchmarks.support.workloads import Workload

COMPARED = ("ours uncompiled", "recipe")
"""The sides whose losses are compared."""
SEEDS = range(FIRST_SEED, FIRST_SEED + 5)
SHARE_OF_MEMORY = 0.9
"""Share of the GPU's memory that trainings that run at once may use together."""
CONTEXT_GIB = 1.0
"""Memory of each process that PyTorch does not count, such as that of CUDA's context and kernels."""

Losses = Mapping[str, Mapping[int, float]]
"""Evaluation loss of each side and seed, in nats."""


def compare_losses(
    workload: Workload,
    first: Mapping[str, Reported],
    has_rows: bool,
    folder: Path,
    deadline: Deadline,
    echo: Echo,
    parallel: int,
) -> Findings:
    """Train both sides with the other seeds, up to `parallel` at a time.

    `first` has what each side reported with the first seed. If one is missing, nothing is trained: it would fail again.
    """
    findings = Findings([], [])
    losses = {side: {FIRST_SEED: first[side].metrics["eval_loss"]} for side in COMPARED if side in first}
    if len(losses) < len(COMPARED):
        return Findings(loss_rows(workload.name, losses), [])

    def run(job: tuple[int, str]) -> Reported | None:
        seed, side = job
        limits = deadline.limits()
        if not limits:
            return None
        own = folder / f"{workload.name}-{COMPARED.index(side)}-{seed}"
        own.mkdir()
        fields = {**side_fields(workload, side, has_rows, seed), **limits}
        return reported_by(own, fields, offline=has_rows, slots=own / "slots")

    jobs = [(seed, side) for seed in SEEDS[1:] for side in COMPARED]
    with ThreadPoolExecutor(trainings_at_a_time([first[side] for side in COMPARED], parallel)) as pool:
        for (seed, side), reported in zip(jobs, pool.map(run, jobs), strict=True):
            label = f"{workload.name}, {side}, seed {seed}"
            if reported is None:
                findings.notes.append(f"{label}: not run, {NO_TIME}.")
            elif reported.failure:
                findings.notes.append(f"{label} failed: {': '.join(reported.failure)}.")
            else:
                losses[side][seed] = reported.metrics["eval_loss"]
    findings.rows += loss_rows(workload.name, losses)
    for line in [*findings.notes, f"{workload.name}: losses of {len(_seeds(losses))} seeds compared"]:
        echo(f"  {line}")
    return findings


def loss_rows(name: str, losses: Losses) -> list[Row]:
    """Return the mean difference of the losses, and, if a training is missing, the number of seeds that have both."""
    ours, theirs = (losses.get(side, {}) for side in COMPARED)
    seeds = _seeds(losses)
    mean = loss_row(
        f"{name}: eval_loss of ours uncompiled minus the recipe's, mean",
        [ours[seed] for seed in seeds],
        [theirs[seed] for seed in seeds],
    )
    rows = [mean] if mean else []
    if len(seeds) == len(SEEDS):
        return rows
    label = f"{name}: seeds with the losses of both sides"
    return [*rows, Row(name=label, value=len(seeds), unit="seeds", target=str(len(SEEDS)), met=False)]


def _seeds(losses: Losses) -> list[int]:
    """Return the seeds with the losses of both sides."""
    return [seed for seed in SEEDS if all(seed in losses.get(side, {}) for side in COMPARED)]


def trainings_at_a_time(measured: Iterable[Reported], most: int) -> int:
    """Return how many such trainings fit in the GPU's memory at a time: at least 1 and at most `most`."""
    for each in measured:
        memory_gib = each.first("start").get("device", {}).get("memory_gib")
        peak_gib = each.metrics.get("memory/peak_reserved_gib")
        if memory_gib and peak_gib is not None:
            most = min(most, int(SHARE_OF_MEMORY * memory_gib / (peak_gib + CONTEXT_GIB)))
    return max(1, most)
