"""Train the workloads at full size on a GPU within a time limit, and compare their speeds and losses.

The sides are the published recipe, and our defaults under each compiler setting. One seed shows little of the losses:
after a few steps from random weights, two seeds can differ by more than 0.1 nats. So losses are compared over several
seeds, if they can be equal: losses of spans depend on the padding. Of these trainings several run at a time,
because their speed does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.gpu.paths import NO_TIME, Deadline, Findings, own_folder, reported_by, speed_rows
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
    "ours autotuned": {"compiler": "inductor", "compile_mode": "max-autotune", "padding": "auto"},
}
AUTOTUNED = ("ours autotuned", "ours with inductor")
"""Sides of the comparison of compile modes, which only `--only NAME-autotuned` runs: autotuning takes minutes."""
SPEEDS = tuple(side for side in SIDES if side != "ours autotuned")
OURS = tuple(side for side in SPEEDS if side != "recipe")
LEAST_OF_DEFAULT = 0.95
"""Least speed of another compile mode, relative to inductor's default mode."""
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
    """Runs trainings of workloads within the time limit, and records what they show."""

    has_rows: bool
    folder: Path
    deadline: Deadline
    findings: Findings
    parallel: int = 1
    """Trainings that may run at a time where their speed is not measured."""

    def measure(
        self, speeds: Sequence[Workload], losses: Sequence[Workload] = (), autotuned: Sequence[Workload] = ()
    ) -> None:
        """Train each workload with each side, compare the losses, and train each side again if there is time."""
        sides = [(workload, SPEEDS) for workload in speeds] + [(workload, AUTOTUNED) for workload in autotuned]
        rounds: list[list[dict[str, Reported]]] = [[] for _ in sides]
        for (workload, names), own in zip(sides, rounds, strict=True):
            self._round(workload, names, own)
        firsts = {
            workload.name: own[0] for (workload, names), own in zip(sides, rounds, strict=True) if names is SPEEDS
        }
        for workload in losses:
            self._losses(workload, firsts.get(workload.name, {}))
        for (workload, _), own in zip(sides, rounds, strict=True):
            self._round(workload, tuple(own[0]), own)

    def _round(self, workload: Workload, sides: Sequence[str], rounds: list[dict[str, Reported]]) -> None:
        """Train each side once, as a new one of the rounds, and record the figures of all rounds after each side."""
        rounds.append({})
        for side in sides:
            reported = self._train(workload, side)
            if reported is None or reported.failure or RATE not in reported.metrics:
                if len(rounds) == 1:
                    self.findings.add((), [f"{workload.name}, {side}: {_problem(reported)}."], failed=True)
                continue
            rounds[-1][side] = reported
            notes = [f"{workload.name}, {each}: {rates} real tokens/s." for each, rates in _rates(rounds)]
            self.findings.add(workload_rows(workload.name, rounds), notes)

    def _train(self, workload: Workload, side: str, seed: int = FIRST_SEED, folder: str = "") -> Reported | None:
        """Train one side. Return None if no time is left. With a folder of its own, it waits for no other job."""
        if not (limits := self.deadline.limits()):
            return None
        fields = {**side_fields(workload, side, self.has_rows, seed), **limits}
        own = own_folder(self.folder, folder or workload.name, fields)
        return reported_by(own, fields, offline=self.has_rows, slots=own / "slots" if folder else None)

    def _losses(self, workload: Workload, first: Round) -> None:
        """Train the compared sides with all seeds, and record the differences of their losses.

        `first` has reports of the first seed. What is missing there is trained first, to know the memory of a job.
        """
        known = {side: first.get(side) or self._train(workload, side) for side in COMPARED}
        losses: dict[str, dict[int, float]] = {side: {} for side in COMPARED}

        def add(seed: int, side: str, reported: Reported | None) -> None:
            if reported and not reported.failure:
                losses[side][seed] = reported.metrics["eval_loss"]
            notes = [] if seed in losses[side] else [f"{workload.name}, {side}, seed {seed}: {_problem(reported)}."]
            self.findings.add(loss_rows(workload.name, losses), notes, failed=bool(notes))

        for side, reported in known.items():
            add(FIRST_SEED, side, reported)
        if not all(FIRST_SEED in each for each in losses.values()):
            return  # it would fail again
        at_a_time = trainings_at_a_time([each for each in known.values() if each], self.parallel)
        with ThreadPoolExecutor(at_a_time) as pool:
            jobs = {
                pool.submit(self._train, workload, side, seed, f"{workload.name}-{number}-{seed}"): (seed, side)
                for seed in SEEDS[1:]
                for number, side in enumerate(COMPARED)
            }
            for job in as_completed(jobs):
                add(*jobs[job], job.result())


def _problem(reported: Reported | None) -> str:
    """Return why a training has no figures."""
    if reported and reported.failure:
        return f"failed: {reported.failure.text}"
    return "it reports no speed" if reported else f"not run, {NO_TIME}"


def workload_rows(name: str, rounds: Sequence[Round]) -> list[Row]:
    """Return the speed of each side in these rounds, our gains, and the differences of the losses of the first."""
    rows = []
    for side in SIDES:
        rows += speed_rows(f"{name}, {side}", [each[side].metrics for each in rounds if side in each])
    rates = dict(_rates(rounds))
    for side in OURS:
        gains = [ours / theirs for ours, theirs in zip(rates.get(side, ()), rates.get("recipe", ()), strict=False)]
        if not gains:
            continue
        rows.append(figure(f"{name}, {side}: gain in real tokens", gains, "x", least=least_gain(name, side)))
        losses = [rounds[0][each].metrics.get("eval_loss") for each in (side, "recipe")]
        if losses[0] is not None and losses[1] is not None:
            rows.append(figure(f"{name}, {side}: eval_loss minus the recipe's", losses[0] - losses[1], "nats"))
    for side in ("ours with CUDA graphs", "ours autotuned"):
        pairs = zip(rates.get(side, ()), rates.get("ours with inductor", ()), strict=False)
        if ratios := [mode / default for mode, default in pairs]:
            rows.append(figure(f"{name}, {side}: speed over the default mode", ratios, "x", least=LEAST_OF_DEFAULT))
    return rows


def _rates(rounds: Sequence[Round]) -> Iterator[tuple[str, list[float]]]:
    """Yield each side with its real tokens per second in each round; sides without any are left out."""
    for side in SIDES:
        metrics = [each[side].metrics for each in rounds if side in each]
        if rates := [round(each[RATE], 1) for each in metrics if RATE in each]:
            yield side, rates


def loss_rows(name: str, losses: Losses) -> list[Row]:
    """Return the mean difference of the losses, and the number of seeds that have both."""
    ours, theirs = (losses.get(side, {}) for side in COMPARED)
    seeds = [seed for seed in SEEDS if seed in ours and seed in theirs]
    mean = loss_row(
        f"{name}: eval_loss of ours uncompiled minus the recipe's, mean",
        [ours[seed] for seed in seeds],
        [theirs[seed] for seed in seeds],
    )
    count = figure(f"{name}: seeds with the losses of both sides", len(seeds), "seeds", least=len(SEEDS))
    return [mean, count] if mean else [count]


def trainings_at_a_time(measured: Iterable[Reported], most: int) -> int:
    """Return how many such trainings fit in 0.9 of the GPU's memory at a time: at least 1 and at most `most`."""
    for each in measured:
        memory_gib = each.first("start").get("device", {}).get("memory_gib")
        peak_gib = each.metrics.get("memory/peak_reserved_gib")
        if memory_gib and peak_gib is not None:
            most = min(most, int(0.9 * memory_gib / (peak_gib + CONTEXT_GIB)))
    return max(1, most)
