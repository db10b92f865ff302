"""A sweep of simulated jobs in this process: its storage, its service and its messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

from sweeps.cost_model.trials import Search, point_of
from sweeps.space.grid import Point, Space
from sweeps.space.objective import CurvePoint, Objective, Quality
from sweeps.study.sampler import make_sampler
from sweeps.study.storage import open_storage
from sweeps.study.study import open_study
from sweeps.workers.runner import Runner
from sweeps.workers.strategy import Strategy
from sweeps.workers.trial_queue import Claim, Limits, NoTrial, Part, claim_trial
from sweeps.workers.worker import WorkerResult, run_worker
from tests.support.sweeps.simulated_jobs import Behaviour, SimulatedRunner, SimulatedService

SPACE = Space(batch_sizes=(8, 16, 32), multipliers=(0.5, 1.0))
LOSS = Quality(metric="eval_loss", higher_is_better=False)
SECONDS = Objective(cost="billable_seconds", quality=LOSS)
LIMITS = Limits(parallel=3, max_parallel=3)


class Bench:
    """Everything that a worker needs, on SQLite."""

    def __init__(self, folder: Path) -> None:
        self.messages: list[str] = []
        self.url = f"sqlite:///{folder}/sweeps.db"
        self.storage = open_storage(self.url, heartbeat_seconds=1, grace_seconds=600, echo=self.messages.append)
        self.service = SimulatedService(folder / "jobs")

    def part(
        self,
        objective: Objective = SECONDS,
        *,
        compiler: str = "none",
        strategy: Strategy | None = None,
        sampler: BaseSampler | None = None,
    ) -> Part:
        study = open_study(
            self.storage,
            sweep="s",
            compiler=compiler,
            space=SPACE,
            objective=objective,
            experiment="e",
            sampler=sampler or grid(objective),
        )
        strategy = strategy or EveryPoint(SPACE)
        return Part(compiler=compiler, study=study, space=SPACE, objective=objective, strategy=strategy)

    def runner(self, behaviour: Callable[[str, Point], Behaviour]) -> SimulatedRunner:
        return SimulatedRunner(self.service, behaviour)

    def run(self, behaviour: Callable[[str, Point], Behaviour], *parts: Part, limits: Limits = LIMITS) -> WorkerResult:
        return self.run_with(self.runner(behaviour), *parts, limits=limits)

    def run_with(self, runner: Runner, *parts: Part, limits: Limits = LIMITS) -> WorkerResult:
        return run_worker(self.storage, "s", parts, runner, limits, echo=self.messages.append)

    def ask(self, *parts: Part, limits: Limits = LIMITS) -> Claim | NoTrial:
        return self.storage.retries.call(
            claim_trial, self.storage, "s", parts, limits, self.runner(short).job_name, self.messages.append
        )


class EveryPoint:
    """Strategy for which every point is worth its cost and none is pruned."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def free_points(self, trials: Sequence[FrozenTrial]) -> Sequence[Point]:
        """Return the points without a trial, below any batch size that ran out of memory."""
        taken = {point_of(trial, self._space) for trial in trials}
        failed = [
            point_of(trial, self._space) for trial in trials if trial.user_attrs.get("end") == "failed: OutOfMemory"
        ]
        too_large = min((point.batch_size for point in failed if point), default=None)
        points = (point for point in self._space.points if point not in taken)
        return [point for point in points if too_large is None or point.batch_size < too_large]

    def stop_reason(self, trials: Sequence[FrozenTrial]) -> str | None:
        """Return None."""
        return None

    def should_prune(
        self, trials: Sequence[FrozenTrial], point: Point, curve: Sequence[CurvePoint], billable_instance_seconds: float
    ) -> str | None:
        """Return None."""
        return None


class StopsSmall(EveryPoint):
    """Strategy that prunes every trial of batch size 8."""

    def should_prune(
        self, trials: Sequence[FrozenTrial], point: Point, curve: Sequence[CurvePoint], billable_instance_seconds: float
    ) -> str | None:
        return "too small" if point.batch_size == 8 else None


class Enough(EveryPoint):
    """Strategy that expects no saving after two trials."""

    def stop_reason(self, trials: Sequence[FrozenTrial]) -> str | None:
        return "no point is expected to save" if len(trials) >= 2 else None


def grid(objective: Objective) -> BaseSampler:
    """Sampler of every point in turn, the base first."""
    return make_sampler("grid", Search(space=SPACE, objective=objective, samples=100, base=Point(16, 1.0)), 1)


def short(compiler: str, point: Point) -> Behaviour:
    """Return the behaviour of a job of some hundredths of a second, which is longer for larger batches."""
    seconds = 0.02 + point.batch_size / 1000
    return Behaviour(seconds=seconds, curve=((seconds / 2, 50, 2.0), (seconds, 100, 1.0)))
