"""Five launchers from two state folders follow the same groups: each job trains once and has one run."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.conftest import ROOT, TrackingServer
from training.services.local.service import LocalService

HOMES = ("first", "first", "first", "second", "second")
JOBS = 4
STEPS = [1, 2, 3, 4, 5]
ROUNDS = 10
WITHIN_SECONDS = 1.5
"""In every second round, the launchers begin at random moments of this time. In the others, they begin together."""


@pytest.mark.slow
@pytest.mark.parametrize("store", ["SQLite", "a server"])
def test_five_followers(request: pytest.FixtureRequest, tracking_uri: str, tmp_path: Path, store: str) -> None:
    server: TrackingServer | None = request.getfixturevalue("tracking_server") if store == "a server" else None
    uri = server.uri if server else tracking_uri
    client, service, faults = MlflowClient(uri), LocalService(tmp_path / "service"), []
    logs = [tmp_path / f"follower-{number}.txt" for number in range(len(HOMES))]
    with followers(tmp_path, uri, HOMES, JOBS) as launchers:
        for number in range(ROUNDS):
            answers = launchers.follow(f"k{number}", within_seconds=WITHIN_SECONDS * (number % 2))
            faults += [answer for answer in answers if not answer.endswith(f" {JOBS}")]
            trained = [job["TrainingJobName"] for job in service.jobs()]
            groups = {answer.split()[1] for answer in answers if answer.startswith("done ")}
            faults += [f"{group} is {fault}" for group in groups for fault in faults_of(client, trained, group)]
    assert faults == []
    assert not any("Traceback (most recent call last)" in log.read_text() for log in logs)


def faults_of(client: MlflowClient, trained: list[str], group: str) -> list[str]:
    """Return `lost` if a job, a run or a point of a group is missing, and `doubled` if one exists twice."""
    names = [f"{group}-{number}" for number in range(JOBS)]
    own = [run for run in _runs(client, "job") if run.data.tags["platform.group"] == group]
    points = {run.info.run_id: client.get_metric_history(run.info.run_id, "loss") for run in own}
    steps = [[point.step for point in points[run.info.run_id]] for run in own]
    runs = Counter(str(run.data.tags["platform.job_name"]) for run in own)
    jobs = Counter(name for name in trained if name.startswith(f"{group}-"))
    groups = [run for run in _runs(client, "group") if run.data.tags["platform.group"] == group]
    lost = not {*names} <= {*runs} & {*jobs} or not groups or any({*STEPS} - {*each} for each in steps)
    lost = lost or any(run.info.status != "FINISHED" for run in own)
    doubled = max((*runs.values(), *jobs.values(), len(groups))) > 1 or any(len(each) > len(STEPS) for each in steps)
    return [name for name, is_so in (("lost", lost), ("doubled", doubled)) if is_so]


def _runs(client: MlflowClient, kind: str) -> list[Run]:
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    return list(client.search_runs(ids, f"tags.\"platform.kind\" = '{kind}'", max_results=5000))


_FOLLOWER = """
import os, random, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
os.environ["TRAINFARE_HOME"] = {home!r}
from tests.support.tracking.planned_jobs import planned
from experiments.running.scheduler import run_jobs
from tracking.groups.group import close_group, open_group
from tracking.server.store import open_store
from training.services.local.service import LocalService
folder, draw = Path({folder!r}), random.Random({number})
store, service = open_store({uri!r}), LocalService(folder / "service")
for line in sys.stdin:
    time.sleep(draw.uniform(0, float(line.split()[1])))
    group = open_group(store, experiment_name="demo", verb="compare", key=line.split()[0])
    jobs = [planned(folder, f"{{group.id}}-{{n}}", repeat=n) for n in range({jobs})]
    outcomes = run_jobs(store, service, group, jobs, parallel=2, echo=lambda text: None)
    close_group(store, group, "FINISHED")
    print("done", group.id, sum(outcome.failure is None for outcome in outcomes), flush=True)
"""


class Followers:
    """Launchers that wait for the next group to follow."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def follow(self, key: str, within_seconds: float) -> list[str]:
        """Let all launchers open the group and run its jobs; each begins at a random time within `within_seconds`.

        Return what each launcher printed: `done GROUP SUCCESSES`, or what it printed before it died.
        """
        for process in self._processes:
            assert process.stdin
            process.stdin.write(f"{key} {within_seconds}\n")
            process.stdin.flush()
        return [_answer(process) for process in self._processes]


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    for line in process.stdout:
        if line.startswith("done"):
            return line.strip()
    return f"exit code {process.wait()}"


@contextmanager
def followers(folder: Path, uri: str, homes: Sequence[str], jobs: int) -> Iterator[Followers]:
    """Start a launcher for each of `homes`, names of state folders. All jobs run in one service."""
    logs = [(folder / f"follower-{number}.txt").open("w") for number in range(len(homes))]
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                _FOLLOWER.format(
                    root=str(ROOT), home=str(folder / home), folder=str(folder), number=number, uri=uri, jobs=jobs
                ),
            ],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        for number, (home, log) in enumerate(zip(homes, logs, strict=True))
    ]
    for log in logs:
        log.close()
    try:
        yield Followers(processes)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
