"""Workers of a sweep that share one PostgreSQL server: speed of eight against one, and time to start a trial.

The jobs are simulated, so that only the sweep itself is measured.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from benchmarks.support.results import Row, median_row, write
from sweeps.cost_model.trials import Search, point_of
from sweeps.space.grid import Point, Space
from sweeps.space.objective import CurvePoint, Objective, Quality, TrialOutcome
from sweeps.study.sampler import make_sampler
from sweeps.study.storage import Storage, open_storage
from sweeps.study.study import distributions, open_study
from sweeps.workers.decisions import Decisions
from sweeps.workers.outcome import attributes, seconds_of
from sweeps.workers.trial_queue import Claim, Limits, Part, claim_trial
from tests.support.sweeps.postgres import postgres
from tests.support.sweeps.simulated_jobs import SimulatedService
from tests.support.sweeps.worker_process import Plan, start

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 3))
TRIALS = int(os.environ.get("BENCH_TRIALS", 64))
WORKERS = 8
FEW, MANY = 100, int(os.environ.get("BENCH_MANY", 2000))
OBJECTIVE = Objective(cost="billable_seconds", quality=Quality(metric="eval_loss", higher_is_better=False), target=0.25)
STARTS = 20
EVALUATIONS = 5
SPACE = Space(
    batch_sizes=tuple(range(8, 553, 8)),
    multipliers=tuple(2 ** (k / 4) for k in range(-16, 17)),
    grid="multiples_of_eight",
    per_octave=4,
)
"""69 batch sizes and 33 multipliers: 2,277 points."""


def sweep_seconds(url: str, folder: Path, name: str, workers: int) -> float:
    """Return the seconds from the creation of a sweep's first job to the end of its last one."""
    plan = Plan(url=url, folder=str(folder / name), trials=TRIALS, max_parallel=workers, together=workers, sweep=name)
    started = [start(plan, folder / f"{name}.txt") for _ in range(workers)]
    codes = [worker.wait() for worker in started]
    if any(codes):
        raise SystemExit(f"error: a worker failed:\n{(folder / f'{name}.txt').read_text()[-4000:]}")
    service = SimulatedService(Path(plan.folder))
    jobs = [service.read(job) for job in service.names]
    assert len(jobs) == TRIALS == sum(service.creations.values())
    return float(max(job["ends"] for job in jobs) - min(job["created"] for job in jobs))


def parallel_rows(url: str, folder: Path) -> list[Row]:
    """Measure one worker and eight workers alternately."""
    one, eight = list[float](), list[float]()
    for number in range(ROUNDS):
        one.append(sweep_seconds(url, folder, f"one-{number}", 1))
        eight.append(sweep_seconds(url, folder, f"eight-{number}", WORKERS))
    ratios = [many / single for single, many in zip(one, eight, strict=True)]
    return [
        median_row(
            f"wall clock, {WORKERS} workers / one worker",
            ratios,
            "ratio",
            "at most 1/6",
            statistics.median(ratios) <= 1 / 6,
        ),
        median_row("wall clock, one worker", one, "s"),
        median_row(f"wall clock, {WORKERS} workers", eight, "s"),
    ]


def start_rows(storage: Storage, name: str) -> list[Row]:
    """Measure the start of a trial (slot, budget, sampling, claim), alternately after few and after many trials.

    Each trial ends before the next one starts.
    """
    parts = [open_part(storage, name, f"{name}-{count}") for count in (FEW, MANY)]
    for part, count in zip(parts, (FEW, MANY), strict=True):
        _add_finished_trials(part, count)
        start_seconds(storage, part)  # Warm up: read the trials that were added.
    few, many = zip(*[[start_seconds(storage, part) for part in parts] for _ in range(STARTS)], strict=True)
    growth = statistics.median(many) / statistics.median(few)
    return [
        median_row(f"{name}: start of a trial after {FEW} trials", few, "s"),
        median_row(
            f"{name}: start of a trial after {MANY:,} trials", many, "s", "under 0.2", statistics.median(many) < 0.2
        ),
        Row(name=f"{name}: growth", value=growth, unit="ratio", n=STARTS, target="at most 2", met=growth <= 2),
    ]


def start_seconds(storage: Storage, part: Part) -> float:
    """Start the next trial and end it. Return the seconds until it had started."""
    limits = Limits(trials=2 * MANY, max_parallel=2)
    began = time.perf_counter()
    claim = storage.retries.call(claim_trial, storage, "s", [part], limits, lambda _, point: f"job-{point}", print)
    seconds = time.perf_counter() - began
    assert isinstance(claim, Claim), claim
    for key, value in _attributes(claim.point.batch_size, claim.point.multiplier).items():
        claim.trial.set_user_attr(key, value)
    part.study.tell(claim.trial, 100.0 + claim.point.batch_size)
    return seconds


def open_part(storage: Storage, name: str, sweep: str) -> Part:
    """Open a study with the named sampler and a space of more points than will be tried."""
    search = Search(space=SPACE, objective=OBJECTIVE, samples=100 * EVALUATIONS, base=Point(8, 1.0))
    study = open_study(
        storage,
        sweep=sweep,
        compiler="none",
        space=SPACE,
        objective=OBJECTIVE,
        experiment="simulated",
        sampler=make_sampler(name, search, seed=1),
    )
    strategy = Decisions(search=search, ends_early=False)
    return Part(compiler="none", study=study, space=SPACE, objective=OBJECTIVE, strategy=strategy)


def _add_finished_trials(part: Part, count: int) -> None:
    """Add finished trials until the study has `count` of them."""
    taken = {point_of(trial, part.space) for trial in part.trials}
    free = [point for point in part.space.points if point not in taken]
    random.Random(1).shuffle(free)
    for point in free[: max(count - len(taken), 0)]:
        part.study.add_trial(_finished_trial(part, point))


def _finished_trial(part: Part, point: Point) -> FrozenTrial:
    values = {100 * k: 1 / k for k in range(1, EVALUATIONS + 1)}
    trial_attributes = _attributes(point.batch_size, point.multiplier)
    return optuna.trial.create_trial(
        state=TrialState.COMPLETE,
        value=trial_attributes["billable_seconds"],
        params=part.space.params(point),
        distributions=distributions(part.space),
        user_attrs={"job": f"job-{point}", **trial_attributes},
        intermediate_values=values,
    )


def _attributes(batch_size: int, multiplier: float) -> dict[str, Any]:
    seconds = 100 + batch_size * multiplier
    outcome = TrialOutcome(
        billable_instance_seconds=seconds, usd=0.1, samples=100 * EVALUATIONS, quality=0.2, reached=True
    )
    curve = [
        CurvePoint(samples=100 * k, value=1 / k, billable_instance_seconds=seconds * k / EVALUATIONS)
        for k in range(1, EVALUATIONS + 1)
    ]
    point = {"batch_size": batch_size, "multiplier": multiplier, "end": "completed"}
    return {**point, **attributes(outcome), "seconds": seconds_of(curve)}


def main() -> None:
    """Measure the wall clock and the starts of trials on one server."""
    with tempfile.TemporaryDirectory() as name, postgres() as url:
        rows = parallel_rows(url, Path(name))
        storage = open_storage(url)
        rows += [row for name in ("tpe", "model") for row in start_rows(storage, name)]
        storage.close()
    write(
        "workers",
        rows,
        [
            f"{TRIALS} simulated jobs of 1 to 2 s each, the same on both sides, with PostgreSQL 18 on the same "
            "machine. The workers start together once all are loaded. Wall clock is from the creation of the first "
            "job to the end of the last.",
            "Starting a trial means checking the limits on running jobs and cost, sampling, and claiming the point. "
            f"The space has {len(SPACE.points):,} points. Starts after few and after many trials alternate.",
            f"Load of the machine at the end: {os.getloadavg()[0]:.1f}.",
        ],
    )


if __name__ == "__main__":
    main()
