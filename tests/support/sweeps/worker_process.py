"""One worker of a sweep of simulated jobs, as a process: `python -m tests.support.sweeps.worker_process JSON`."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from sweeps.optuna_study import Limits, Part, open_study
from sweeps.search_space import Point, Space
from sweeps.storage import open_storage
from sweeps.trials import Objective, Quality, Search
from sweeps.worker import run_worker
from tests.conftest import ROOT
from tests.support.sweeps.simulated_jobs import Behaviour, SimulatedRunner, SimulatedService

OBJECTIVE = Objective(cost="billable_seconds", quality=Quality(metric="eval_loss", higher_is_better=False))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Settings of all workers of a sweep."""

    url: str
    folder: str
    trials: int
    max_parallel: int
    parallel: int = 1
    compilers: tuple[str, ...] = ("none",)
    together: int = 1
    """Workers that begin when all of them are loaded."""

    @property
    def space(self) -> Space:
        """Many points: 5 multipliers to each batch size."""
        sizes = tuple(range(8, 8 * (self.trials // 5 + 2), 8))
        return Space(batch_sizes=sizes, multipliers=(0.25, 0.5, 1.0, 2.0, 4.0), grid="multiples_of_eight")

    def behaviour(self, compiler: str, point: Point) -> Behaviour:
        """Return the job's length: drawn, the same for the same point."""
        draw = random.Random(f"{compiler} {point.batch_size} {point.multiplier}")
        seconds = draw.uniform(1.0, 2.0)
        return Behaviour(seconds=seconds, curve=((seconds / 2, 50, 2.0), (seconds, 100, 1.0)))


def start(plan: Plan, log: Path) -> subprocess.Popen[bytes]:
    """Start a worker."""
    with log.open("ab") as output:
        command = [sys.executable, "-m", "tests.support.sweeps.worker_process", json.dumps(asdict(plan))]
        return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True)


def main(plan: Plan) -> None:
    """Work until the sweep is done."""
    from optuna.samplers import RandomSampler

    storage = open_storage(plan.url, heartbeat_seconds=1, grace_seconds=3)
    parts = [
        Part(
            compiler=compiler,
            study=open_study(
                storage,
                sweep="s",
                compiler=compiler,
                space=plan.space,
                objective=OBJECTIVE,
                experiment="simulated",
                sampler=RandomSampler(),
            ),
            search=Search(space=plan.space, objective=OBJECTIVE, samples=100, base=plan.space.points[0]),
            prunes=False,
            ends_early=False,
        )
        for compiler in plan.compilers
    ]
    runner = SimulatedRunner(SimulatedService(Path(plan.folder)), plan.behaviour)
    (Path(plan.folder) / f"{os.getpid()}.ready").touch()
    while len(list(Path(plan.folder).glob("*.ready"))) < plan.together:
        time.sleep(0.02)
    limits = Limits(trials=plan.trials, parallel=plan.parallel, max_parallel=plan.max_parallel)
    print(run_worker(storage, "s", parts, runner, limits).reason, flush=True)


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    main(Plan(**{**arguments, "compilers": tuple(arguments["compilers"])}))
