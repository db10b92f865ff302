"""Train the workloads at full size on a GPU within a time limit, and compare their speeds and losses.

The sides are the published recipe, and our defaults under each compiler setting. One seed shows little of the losses:
after a few steps from random weights, two seeds can differ by more than 0.1 nats. So losses are compared over several
seeds, if they can be equal: losses of spans depend on the padding. Of these trainings several run at a time,
because their speed does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.gpu.paths import NO_TIME, Deadline, Echo, Findings, reported_by, speed_rows
from benchmarks.support.command import Reported
from benchmarks.support.results import Row, figure, loss_row
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
COMPARED = ("ours uncompiled", "recipe")
"""The sides whose losses are compared."""
SEEDS = range(FIRST_SEED, FIRST_SEED + 5)
RATE = "throughput/steady_tokens_per_second"
"""Real tokens, without padding: the rows in the measured steps of two sides differ in length."""
CONTEXT_GIB = 1.0
"""Memory of each process that PyTorch does not count, such as for CUDA's context and kernels."""
Round = Mapping[str, Reported]
"""Reports of the completed sides, by name."""
Losses = Mapping[str, Mapping[int, float]]
"""Evaluation loss of each side and seed, in nats."""


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


@dataclass(frozen=True, kw_only=True)
class Trainings:
    """Runs trainings of workloads within the time limit, and collects what they show."""

    has_rows: bool
    folder: Path
    deadline: Deadline
    echo: Echo
    parallel: int = 1
    """Trainings that may run at a time where their speed is not measured."""

    def measure(self, workloads: Sequence[Workload]) -> Findings:
        """Train each workload with each side, compare the losses, and train each side again if there is time."""
        source = "Weights are random." if self.has_rows else "Weights and rows are the published ones, from the Hub."
        findings = Findings([], [source])
        firsts = [self.sides(workload, SIDES, findings.notes) for workload in workloads]
        for workload, first in zip(workloads, firsts, strict=True):
            if workload.quality == "eval_loss":
                findings.rows += loss_rows(workload.name, self.losses(workload, first, findings.notes))
        for workload, first in zip(workloads, firsts, strict=True):
            rounds = [first, self.sides(workload, first, [])]
            findings.rows += workload_rows(workload.name, rounds)
            findings.notes += [f"{workload.name}, {side}: {rates} real tokens/s." for side, rates in _rates(rounds)]
        return findings

    def sides(self, workload: Workload, sides: Iterable[str], notes: list[str]) -> Round:
        """Train these sides. Return the reports of those that completed, and add notes about the others."""
        completed = {}
        for side in sides:
            if not (limits := self.deadline.limits()):
                notes.append(f"{workload.name}, {side}: not run, {NO_TIME}.")
                continue
            fields = {**side_fields(workload, side, self.has_rows), **limits}
            reported = reported_by(self.folder, fields, offline=self.has_rows)
            if reported.failure:
                notes.append(f"{workload.name}, {side} failed: {reported.failure.text}.")
            else:
                completed[side] = reported
            self.echo(f"  {workload.name}, {side}: {'failed' if reported.failure else 'completed'}")
        return completed

    def losses(self, workload: Workload, first: Round, notes: list[str]) -> Losses:
        """Train the compared sides with the other seeds, and return the losses of those that completed.

        `first` has the first seed. If a side is missing in it, nothing is trained: it would fail again.
        """
        losses = {side: {FIRST_SEED: first[side].metrics["eval_loss"]} for side in COMPARED if side in first}
        if len(losses) < len(COMPARED):
            return losses

        def run(job: tuple[int, str]) -> Reported | None:
            seed, side = job
            if not (limits := self.deadline.limits()):
                return None
            own = self.folder / f"{workload.name}-{COMPARED.index(side)}-{seed}"
            own.mkdir()
            fields = {**side_fields(workload, side, self.has_rows, seed), **limits}
            return reported_by(own, fields, offline=self.has_rows, slots=own / "slots")

        jobs = [(seed, side) for seed in SEEDS[1:] for side in COMPARED]
        with ThreadPoolExecutor(trainings_at_a_time([first[side] for side in COMPARED], self.parallel)) as pool:
            for (seed, side), reported in zip(jobs, pool.map(run, jobs), strict=True):
                if reported and not reported.failure:
                    losses[side][seed] = reported.metrics["eval_loss"]
                else:
                    failure = reported.failure if reported else None
                    reason = f"failed: {failure.text}" if failure else f"not run, {NO_TIME}"
                    notes.append(f"{workload.name}, {side}, seed {seed}: {reason}.")
                    self.echo(f"  {notes[-1]}")
        return losses


def workload_rows(name: str, rounds: Sequence[Round]) -> list[Row]:
    """Return the speed of each side in these rounds, our gains, and the differences of the losses of the first."""
    rows = []
    for side in SIDES:
        rows += speed_rows(f"{name}, {side}", [each[side].metrics for each in rounds if side in each])
    rates = dict(_rates(rounds))
    for side in OURS:
        gains = [ours / theirs for ours, theirs in zip(rates.get(side, ()), rates.get("recipe", ()), strict=False)]
        if not gains:
            measured = sum(each in rates for each in (side, "recipe"))
            rows.append(figure(f"{name}, {side}: measured speeds, ours and the recipe's", measured, "", least=2))
            continue
        rows.append(figure(f"{name}, {side}: gain in real tokens", gains, "x", least=least_gain(name, side)))
        losses = [rounds[0][each].metrics.get("eval_loss") for each in (side, "recipe")]
        if losses[0] is not None and losses[1] is not None:
            rows.append(figure(f"{name}, {side}: eval_loss minus the recipe's", losses[0] - losses[1], "nats"))
    return rows


def _rates(rounds: Sequence[Round]) -> Iterator[tuple[str, list[float]]]:
    """Yield each side with its real tokens per second in each round; sides without any are left out."""
    for side in SIDES:
        metrics = [each[side].metrics for each in rounds if side in each]
        if rates := [round(each[RATE], 1) for each in metrics if RATE in each]:
            yield side, rates


def loss_rows(name: str, losses: Losses) -> list[Row]:
    """Return the mean difference of the losses, and, if a training is missing, the number of seeds that have both."""
    ours, theirs = (losses.get(side, {}) for side in COMPARED)
    seeds = [seed for seed in SEEDS if seed in ours and seed in theirs]
    mean = loss_row(
        f"{name}: eval_loss of ours uncompiled minus the recipe's, mean",
        [ours[seed] for seed in seeds],
        [theirs[seed] for seed in seeds],
    )
    rows = [mean] if mean else []
    if len(seeds) < len(SEEDS):
        rows.append(figure(f"{name}: seeds with the losses of both sides", len(seeds), "seeds", least=len(SEEDS)))
    return rows


def trainings_at_a_time(measured: Iterable[Reported], most: int) -> int:
    """Return how many such trainings fit in 0.9 of the GPU's memory at a time: at least 1 and at most `most`."""
    for each in measured:
        memory_gib = each.first("start").get("device", {}).get("memory_gib")
        peak_gib = each.metrics.get("memory/peak_reserved_gib")
        if memory_gib and peak_gib is not None:
            most = min(most, int(0.9 * memory_gib / (peak_gib + CONTEXT_GIB)))
    return max(1, most)
