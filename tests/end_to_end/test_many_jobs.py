"""Many jobs at SageMaker, followed by one command: counted at the account, and point by point in MLflow."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.aws.serve import Served, served
from tests.conftest import ROOT
from tests.end_to_end.conftest import CommandLine

pytestmark = pytest.mark.slow

STEPS = 20


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "account") as found:
        yield found


def study(folder: Path, *, jobs: int, parallel: int, pause: float) -> Path:
    """Write an experiment of so many jobs, each a script that tells a loss at every step."""
    fields: dict[str, Any] = {
        "script": {
            "source": str(ROOT / "benchmarks" / "talking"),
            "entry_point": "talk.py",
            "hyperparameters": {"steps": STEPS, "pause": pause, "batch": "$batch_size", "seed": "$seed"},
            "metrics": {name: f"{name} ([0-9.]+)" for name in ("step", "samples", "loss")},
        },
        "service": "sagemaker",
        "machine": {"instance_type": "ml.g5.xlarge"},
        "aws": {"role": "trainer", "prices": str(folder / "prices.json")},
        "compare": {"arms": [{"batch_size": 16}, {"batch_size": 64}], "repeats": jobs // 2, "parallel": parallel},
    }
    (folder / "prices.json").write_text('{"date": "2026-11-01", "usd_per_hour": {"ml.g5.xlarge": 1.408}}')
    path = folder / "talking.yaml"
    path.write_text(yaml.safe_dump(fields))
    return path


def points(uri: str) -> Counter[tuple[str, str, int]]:
    """Return how often each point of the curves stands in MLflow, by run, name and step."""
    connection = sqlite3.connect(uri.removeprefix("sqlite:///"))
    rows = connection.execute(
        "select m.run_uuid, m.key, m.step from metrics m join tags t on t.run_uuid = m.run_uuid"
        " where t.key = 'platform.kind' and t.value = 'job' and m.key in ('loss', 'samples')"
    ).fetchall()
    connection.close()
    return Counter((run, key, step) for run, key, step in rows)


def assert_complete(command_line: CommandLine, account: Served, jobs: int) -> None:
    """Every job was created once, every run is complete, every point is there once."""
    runs = command_line.runs()
    assert Counter(run.info.status for run in runs) == {"FINISHED": jobs}
    assert sorted(account.ask("jobs")) == sorted(run.data.tags["platform.job_name"] for run in runs)
    expected = {(run.info.run_id, key, 1 + at) for run in runs for key in ("loss", "samples") for at in range(STEPS)}
    told = points(command_line.uri)
    assert set(told) == expected
    assert set(told.values()) == {1}
    [group] = command_line.runs("group")
    assert (group.info.status, group.data.tags["platform.group_state"]) == ("FINISHED", "closed")


def most_calls(calls: list[tuple[float, str]], seconds: float) -> int:
    """Return the most calls in any window of so many seconds."""
    times = [at for at, _ in calls]
    return max(sum(first <= at < first + seconds for at in times) for first in times)


def test_many_are_followed_with_few_calls(command_line: CommandLine, account: Served, tmp_path: Path) -> None:
    jobs = 30
    environment = command_line.environment | account.variables
    path = study(tmp_path, jobs=jobs, parallel=jobs, pause=1.0)
    command = command_line.command("compare", {"experiment": path})
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_complete(command_line, account, jobs)
    calls = account.ask("calls")
    assert most_calls(calls, 10.0) < 100
    asked = Counter(operation for _, operation in calls)
    assert asked["CreateTrainingJob"] == jobs
    assert asked["ListTrainingJobs"] == 0


def test_kill_9_of_the_launcher_at_random_moments(command_line: CommandLine, account: Served, tmp_path: Path) -> None:
    """A hundred jobs; whoever is killed and given the same command again has each of them once, and each point."""
    jobs, kills = 100, 20
    seed = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
    print(f"CRASH_SEED={seed}")
    drawn = random.Random(seed)
    path = study(tmp_path, jobs=jobs, parallel=50, pause=0.5)
    command = command_line.command("compare", {"experiment": path})
    environment = command_line.environment | account.variables
    moments = []
    while True:
        with (tmp_path / "launcher.txt").open("ab") as said:
            launcher = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=said)
        try:
            # The first ones before, while and after the data is put there; then anywhere in a launcher's life.
            launcher.wait(drawn.uniform(0.0, 15.0) if len(moments) < kills else 250)
            break
        except subprocess.TimeoutExpired:
            launcher.send_signal(signal.SIGKILL)
            launcher.wait()
            moments.append((len(account.ask("jobs")), len(points(command_line.uri))))
    print(moments)
    assert launcher.returncode == 0, (tmp_path / "launcher.txt").read_text()[-3000:]
    assert len(moments) >= kills
    assert_complete(command_line, account, jobs)
