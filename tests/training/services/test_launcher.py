"""Following a job with an injected sleep function."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.services.following import ended, follow, until_unsupervised
from tests.support.services.harness import LocalHarness
from training.contract.failures import failure_of
from training.services.launcher import Follower, submit


class Sleep:
    """A sleep function that records each pause, and calls an action at the n-th pause."""

    def __init__(self, actions: dict[int, Any]) -> None:
        self.seconds: list[float] = []
        self._actions = actions

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._actions.get(len(self.seconds), lambda: None)()


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

    def print_line() -> None:
        go.touch()
        while not job.service.logs("job").lines:
            pass

    def end() -> None:
        Path(f"{go}2").touch()
        ended(job)

    sleep = Sleep({10: print_line, 13: end})
    updates = list(follow(job, sleep=sleep))
    grown = [0.05 * 1.5**n for n in range(8)]
    assert sleep.seconds == pytest.approx([*grown, 1.0, 1.0, *grown[:3]])
    assert [list(update.lines) for update in updates] == [[], ["new"], []]
    assert updates[1].description is None
    assert updates[2].description == job.describe()


def test_a_created_job_that_no_longer_exists_has_failed(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    job = submit(harness.service, harness.request("pass"))
    ended(job)
    until_unsupervised(harness.root)
    shutil.rmtree(harness.job_folder())
    follower = Follower(job)
    # A new job may not be visible at first.
    assert [follower.look(), follower.look(), follower.ended] == [None, None, False]
    update = follower.look()
    assert follower.ended
    assert update is not None
    assert update.description is not None
    failure = failure_of(update.description, [], [])
    assert failure.failure_class == "Vanished"
    assert failure.message.startswith("Job 'job' does not exist in ")
    assert failure.message.endswith(", though it was created: it may have been deleted.")
