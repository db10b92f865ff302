"""A sweep of simulated jobs in this process: its storage, its service and its messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from optuna.samplers import BaseSampler

from sweeps.costs import CostModel
from sweeps.optuna_study import Claim, Limits, NoTrial, Part, PointSampler, claim_trial, open_study
from sweeps.search_space import Point, Space
from sweeps.storage import open_storage
from sweeps.trials import Objective, Quality, Search
from sweeps.worker import Runner, run_worker
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
        costs: CostModel | None = None,
        decides: bool = False,
        sampler: BaseSampler | None = None,
    ) -> Part:
        """Return a study of every point in turn, the base first. It prunes and ends early only if it `decides`."""
        search = Search(space=SPACE, objective=objective, samples=100, base=Point(16, 1.0), costs=costs)
        study = open_study(
            self.storage,
            sweep="s",
            compiler=compiler,
            space=SPACE,
            objective=objective,
            experiment="e",
            sampler=sampler or PointSampler("grid", search, 1),
        )
        return Part(compiler=compiler, study=study, search=search, prunes=decides, ends_early=decides)

    def runner(self, behaviour: Callable[[str, Point], Behaviour]) -> SimulatedRunner:
        return SimulatedRunner(self.service, behaviour)

    def run(self, behaviour: Callable[[str, Point], Behaviour], *parts: Part, limits: Limits = LIMITS) -> NoTrial:
        return self.run_with(self.runner(behaviour), *parts, limits=limits)

    def run_with(self, runner: Runner, *parts: Part, limits: Limits = LIMITS) -> NoTrial:
        return run_worker(self.storage, "s", parts, runner, limits, echo=self.messages.append)

    def ask(self, *parts: Part, limits: Limits = LIMITS) -> Claim | NoTrial:
        return self.storage.retries.call(
            claim_trial, self.storage, "s", parts, limits, self.runner(short).job_name, self.messages.append
        )


def short(compiler: str, point: Point) -> Behaviour:
    """Return the behaviour of a job of some hundredths of a second, which is longer for larger batches."""
    seconds = 0.02 + point.batch_size / 1000
    return Behaviour(seconds=seconds, curve=((seconds / 2, 50, 2.0), (seconds, 100, 1.0)))
