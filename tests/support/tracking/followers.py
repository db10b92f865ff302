"""Launchers that follow the same groups at the same time: real processes, with shared or separate state folders."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import ROOT

_FOLLOWER = """
import os, random, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
os.environ["TRAINFARE_HOME"] = {home!r}
from tests.support.tracking.planned_jobs import planned
from tracking.following.group_session import run_jobs
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
