"""Workers of a sweep on one PostgreSQL: eight against one on the same simulated trials; how long a trial's start takes.

The jobs are simulated, so that what is measured is the sweep itself.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import optuna
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from benchmarks.results import Row, measured, write
from sweeps.asking import Claim, Limits, Part, ask
from sweeps.objective import CurvePoint
from sweeps.outcome import seconds_of
from sweeps.storage import Storage, open_storage
from sweeps.strategy import EveryPoint
from sweeps.study import distributions, open_study, point_of
from tests.sweeps.postgres import postgres
from tests.sweeps.simulated_jobs import SimulatedService
from tests.sweeps.worker_process import OBJECTIVE, Plan, start

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 3))
TRIALS = int(os.environ.get("BENCH_TRIALS", 96))
WORKERS = 8
FEW, MANY = 100, int(os.environ.get("BENCH_MANY", 2000))
ASKED = 20
EVALUATIONS = 5


def sweep_seconds(url: str, folder: Path, name: str, workers: int) -> float:
    """Return how long the jobs of a sweep took, from the first one's creation to the last one's end."""
    plan = Plan(url=url, folder=str(folder / name), trials=TRIALS, max_parallel=workers, sweep=name)
    started = [start(plan, folder / f"{name}.txt") for _ in range(workers)]
    codes = [worker.wait() for worker in started]
    if any(codes):
        raise SystemExit(f"error: a worker failed:\n{(folder / f'{name}.txt').read_text()[-4000:]}")
    service = SimulatedService(Path(plan.folder))
    jobs = [service.read(job) for job in service.names]
    assert len(jobs) == TRIALS == sum(service.creations.values())
    return float(max(job["ends"] for job in jobs) - min(job["created"] for job in jobs))


def parallel_rows(url: str, folder: Path) -> list[Row]:
    """Measure eight workers and one in turn."""
    one, eight = list[float](), list[float]()
    for number in range(ROUNDS):
        one.append(sweep_seconds(url, folder, f"one-{number}", 1))
        eight.append(sweep_seconds(url, folder, f"eight-{number}", WORKERS))
    ratios = [few / single for single, few in zip(one, eight, strict=True)]
    return [
        measured(f"wall clock, {WORKERS} workers over one", ratios, "ratio", "at most 1/6", _median(ratios) <= 1 / 6),
        measured("wall clock, one worker", one, "s"),
        measured(f"wall clock, {WORKERS} workers", eight, "s"),
    ]


def start_rows(storage: Storage, name: str, sampler_of: Callable[[Plan], BaseSampler]) -> list[Row]:
    """Measure what a trial takes to start (room, budget, sampling, claim) beside few trials and beside many."""
    plan = Plan(url="", folder="", trials=MANY + 10 * ASKED, max_parallel=MANY)
    study = open_study(
        storage, sweep=name, compiler="none", space=plan.space, objective=OBJECTIVE, experiment="simulated",
        sampler=sampler_of(plan),
    )  # fmt: skip
    part = Part(compiler="none", study=study, space=plan.space, objective=OBJECTIVE, strategy=EveryPoint(plan.space))
    limits = Limits(trials=MANY * 2, max_parallel=MANY, max_billable_seconds=1e9)
    few = _start_seconds(storage, part, limits, fill_to=FEW)
    many = _start_seconds(storage, part, limits, fill_to=MANY)
    growth = _median(many) / _median(few)
    return [
        measured(f"{name}: a trial's start beside {FEW} trials", few, "s"),
        measured(f"{name}: a trial's start beside {MANY:,} trials", many, "s", "under 0.2", _median(many) < 0.2),
        Row(name=f"{name}: growth", value=growth, unit="ratio", n=ASKED, target="at most 2", met=growth <= 2),
    ]


def _start_seconds(storage: Storage, part: Part, limits: Limits, *, fill_to: int) -> list[float]:
    """Return how long each of the next trials took to start, each ended before the next one is asked for."""
    _fill(part, fill_to)
    found = []
    for _ in range(ASKED):
        began = time.perf_counter()
        claim = storage.patience.call(ask, storage, "s", [part], limits, lambda _, point: f"job-{point}", print)
        found.append(time.perf_counter() - began)
        assert isinstance(claim, Claim), claim
        part.study.tell(claim.trial, 100.0 + claim.point.batch_size)
    return found[1:]  # the first reads the trials that were filled in


def _fill(part: Part, wanted: int) -> None:
    """Add trials that have ended, until there are so many."""
    taken = {point_of(trial, part.space) for trial in part.trials}
    free = [point for point in part.space.points if point not in taken]
    random.Random(1).shuffle(free)
    for point in free[: max(wanted - len(taken), 0)]:
        part.study.add_trial(_ended(part, point.batch_size, point.multiplier, part.space.params(point)))


def _ended(part: Part, batch_size: int, multiplier: float, params: dict[str, float]) -> FrozenTrial:
    seconds = 100 + batch_size * multiplier
    curve = [
        CurvePoint(samples=100 * k, value=1 / k, billable_seconds=seconds * k / EVALUATIONS)
        for k in range(1, EVALUATIONS + 1)
    ]
    return optuna.trial.create_trial(
        state=TrialState.COMPLETE,
        value=seconds,
        params=params,
        distributions=distributions(part.space),
        user_attrs={
            "batch_size": batch_size, "multiplier": multiplier, "job": f"job-{batch_size}-{multiplier}", "end":
            "completed", "billable_seconds": seconds, "usd": 0.1, "seconds": seconds_of(curve), "quality": 0.2,
        },
        intermediate_values={point.samples: point.value for point in curve},
    )  # fmt: skip


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def main() -> None:
    """Measure both on one server."""
    with tempfile.TemporaryDirectory() as name, postgres() as url:
        rows = parallel_rows(url, Path(name))
        storage = open_storage(url)
        rows += start_rows(storage, "tpe", lambda plan: TPESampler(seed=1))
        storage.close()
    write(
        "workers",
        rows,
        [
            f"{TRIALS} jobs of 1 to 2 s each, drawn once and the same on both sides, PostgreSQL 18 on the same "
            "machine; wall clock from the first job's creation to the last one's end. Starting a trial: counting "
            "what runs and what is spent, sampling, and claiming the point, until its job may be submitted.",
            f"Load of the machine at the end: {os.getloadavg()[0]:.1f}.",
        ],
    )


if __name__ == "__main__":
    main()
