"""Following a job with an injected sleep function."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.services.harness import LocalHarness
from training.contract.errors import JobNotFound
from training.services.launcher import Follower, Job, failure_of, submit


class Naps:
    """A sleep function that records each pause and calls an action at the n-th."""

    def __init__(self, due: dict[int, Any]) -> None:
        self.seconds: list[float] = []
        self._due = due

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._due.get(len(self.seconds), lambda: None)()


def test_pauses_grow_without_updates_and_reset_after_one(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    go = tmp_path / "go"
    script = """
        import pathlib, sys, time
        while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.01)
        print("new", flush=True)
        while not pathlib.Path(sys.argv[2] + "2").exists(): time.sleep(0.01)
    """
    job = submit(harness.service, harness.request(script, hyperparameters={"go": str(go)}))
    while job.describe()["SecondaryStatus"] != "Training":
        pass

    def prints() -> None:
        go.touch()
        while not job.service.logs("job").lines:
            pass

    def ends() -> None:
        Path(f"{go}2").touch()
        job.wait()

    naps = Naps({10: prints, 13: ends})
    updates = list(job.follow(sleep=naps))
    grown = [0.05 * 1.5**n for n in range(8)]
    assert naps.seconds == pytest.approx([*grown, 1.0, 1.0, *grown[:3]])
    assert [list(update.lines) for update in updates] == [[], ["new"], []]
    assert updates[1].description is None
    assert updates[2].description == job.describe()


def test_the_pause_of_wait_is_capped(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    job = submit(harness.service, harness.request("import time; time.sleep(300)"))
    naps = Naps({12: job.stop})
    description = Job(harness.again(), "job").wait(sleep=naps)
    assert description["TrainingJobStatus"] == "Stopped"
    assert naps.seconds[:3] == pytest.approx([0.05, 0.075, 0.1125])
    assert max(naps.seconds) == naps.seconds[11] == 1.0


def test_a_created_job_that_no_longer_exists_has_failed(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    job = submit(harness.service, harness.request("pass"))
    job.wait()
    shutil.rmtree(harness.job_folder())
    follower = Follower(job, exists=True)
    # A new job may take a moment to appear everywhere.
    assert [follower.look(), follower.look(), follower.ended] == [None, None, False]
    update = follower.look()
    assert follower.ended
    assert update is not None
    assert update.description is not None
    failure_class, reason = failure_of(update.description, [], [])
    assert failure_class == "Vanished"
    assert reason.startswith("Job 'job' does not exist in ")
    assert reason.endswith(", though it was created: it may have been deleted.")
    with pytest.raises(JobNotFound):
        Follower(job).look()
