"""One worker over simulated jobs on SQLite: each rule by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from optuna.trial import TrialState

from sweeps.asking import Limits, Part
from sweeps.objective import Objective, Quality
from sweeps.space import Point, Space
from sweeps.storage import open_storage
from sweeps.strategy import EveryPoint, Strategy
from sweeps.study import open_study
from sweeps.worker import Done, run_worker
from tests.sweeps.simulated_jobs import Course, SimulatedRunner, SimulatedService

SPACE = Space(batch_sizes=(8, 16, 32), multipliers=(0.5, 1.0))
LOSS = Quality(metric="eval_loss", higher_is_better=False)
SECONDS = Objective(cost="billable_seconds", quality=LOSS)
LIMITS = Limits(parallel=3, max_parallel=3)


class Bench:
    """A storage, a service of jobs and what is said."""

    def __init__(self, folder: Path) -> None:
        self.said: list[str] = []
        self.storage = open_storage(
            f"sqlite:///{folder}/sweeps.db", heartbeat_seconds=1, grace_seconds=2, say=self.said.append
        )
        self.service = SimulatedService(folder / "jobs")

    def part(self, objective: Objective = SECONDS, compiler: str = "none", strategy: Strategy | None = None) -> Part:
        study = open_study(self.storage, sweep="s", compiler=compiler, space=SPACE, objective=objective, experiment="e")
        return Part(
            compiler=compiler, study=study, space=SPACE, objective=objective, strategy=strategy or EveryPoint(SPACE)
        )

    def run(self, course: Callable[[str, Point], Course], *parts: Part, limits: Limits = LIMITS) -> Done:
        runner = SimulatedRunner(self.service, course)
        return run_worker(self.storage, "s", parts, runner, limits, say=self.said.append)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def short(compiler: str, point: Point) -> Course:
    seconds = 0.02 + point.batch_size / 1000
    return Course(seconds=seconds, curve=((seconds / 2, 50, 2.0), (seconds, 100, 1.0)))


def test_every_point_is_tried_once(bench: Bench) -> None:
    part = bench.part()
    done = bench.run(short, part)
    assert done == Done(reason="none: no point is left")
    assert set(bench.service.creations.values()) == {1}
    assert len(bench.service.names) == 6
    complete = [trial for trial in part.trials if trial.state == TrialState.COMPLETE]
    assert sorted((t.user_attrs["batch_size"], t.user_attrs["multiplier"]) for t in complete) == [
        (size, factor) for size in (8, 16, 32) for factor in (0.5, 1.0)
    ]
    for trial in complete:
        assert trial.intermediate_values == {50: 2.0, 100: 1.0}
        assert trial.user_attrs["end"] == "completed"
        assert trial.value == pytest.approx(0.02 + trial.user_attrs["batch_size"] / 1000, rel=1e-3)
        assert (
            trial.user_attrs["job"] == f"job-none-{trial.user_attrs['batch_size']}-{trial.user_attrs['multiplier']:g}"
        )
    assert bench.service.most_at_once() <= 3
