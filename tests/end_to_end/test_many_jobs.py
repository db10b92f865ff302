"""Many SageMaker jobs, followed by one command: the number of calls, and every point in MLflow."""

from __future__ import annotations

import math
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.end_to_end.conftest import CommandLine
from tests.support.aws.serve import Served, served
from tests.support.aws.talking import points, study

pytestmark = pytest.mark.slow

STEPS = 20


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "account") as opened:
        yield opened


def database(command_line: CommandLine) -> Path:
    return Path(command_line.uri.removeprefix("sqlite:///"))


def assert_complete(command_line: CommandLine, account: Served, jobs: int) -> None:
    """Check that every job was created once, every run is complete and every point is stored once."""
    runs = command_line.runs()
    assert Counter(run.info.status for run in runs) == {"FINISHED": jobs}
    assert sorted(account.ask("jobs")) == sorted(run.data.tags["platform.job_name"] for run in runs)
    expected = {(run.info.run_id, key, 1 + at) for run in runs for key in ("loss", "samples") for at in range(STEPS)}
    counts = points(database(command_line))
    assert set(counts) == expected
    assert set(counts.values()) == {1}
    [group] = command_line.runs("group")
    assert (group.info.status, group.data.tags["platform.group_state"]) == ("FINISHED", "closed")


def ended_runs(uri: str) -> int:
    """Count the jobs' runs that have ended."""
    connection = sqlite3.connect(uri.removeprefix("sqlite:///"), timeout=60.0)
    [[count]] = connection.execute(
        "select count(*) from runs r join tags t on t.run_uuid = r.run_uuid"
        " where t.key = 'platform.kind' and t.value = 'job' and r.status = 'FINISHED'"
    ).fetchall()
    connection.close()
    return int(count)


class Launchers:
    """Launchers that run one after another with the same command."""

    def __init__(self, command: list[str], environment: dict[str, str], output: Path) -> None:
        self._command, self._environment, self._output = command, environment, output

    def run(self, leaves: Callable[[str], bool]) -> int:
        """Run a launcher until `leaves` returns true for its output so far, then kill it. Return its exit status."""
        deadline = time.monotonic() + 560
        with self._output.open("wb") as output:
            launcher = subprocess.Popen(self._command, cwd=ROOT, env=self._environment, stdout=output, stderr=output)
        try:
            while launcher.poll() is None and not leaves(self._output.read_text()):
                assert time.monotonic() < deadline, self._output.read_text()
                time.sleep(0.02)
        finally:
            launcher.kill()
            launcher.wait()
        return launcher.returncode


def at_random(drawn: random.Random) -> Callable[[str], bool]:
    """Return a moment of a launcher's life: one in four while it starts, else while jobs are created and followed."""
    word = drawn.choice(["", " jobs", " jobs", " jobs"])
    pause, since = drawn.uniform(0.0, 3.0), math.inf

    def leaves(output: str) -> bool:
        nonlocal since
        if word in output:
            since = min(since, time.monotonic())
        return time.monotonic() >= since + pause

    return leaves


@pytest.mark.gate
@pytest.mark.timeout(900)
def test_a_launcher_killed_at_random_moments_resumes_every_job(
    command_line: CommandLine, account: Served, tmp_path: Path
) -> None:
    """Twenty jobs: after several kills, the same command has created each job once and stored each point once."""
    jobs, kills = 20, 5
    seed = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
    print(f"CRASH_SEED={seed}")
    drawn = random.Random(seed)
    path = study(tmp_path, jobs=jobs, parallel=jobs, steps=STEPS, pause=0.5)
    command = command_line.command("compare", {"experiment": path})
    launchers = Launchers(command, command_line.environment | account.variables, tmp_path / "launcher.txt")
    for _ in range(kills):
        # Not done by then: its calls are spaced, and all jobs together need more of them.
        assert launchers.run(at_random(drawn)) == -signal.SIGKILL
        print(len(account.ask("jobs")), "jobs,", len(points(database(command_line))), "points,", end=" ")
        print(ended_runs(command_line.uri), "runs ended")
    # While runs end, and, where it is quick enough, between the last of them and the report.
    for ended in (drawn.randrange(1, jobs), jobs):
        if launchers.run(lambda _, ended=ended: ended_runs(command_line.uri) >= ended) == 0:
            break
    else:
        assert launchers.run(lambda _: False) == 0, (tmp_path / "launcher.txt").read_text()
    assert_complete(command_line, account, jobs)
