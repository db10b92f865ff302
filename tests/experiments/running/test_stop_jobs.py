"""Test the outcomes that `jobs stop` reports, with real local jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.running.manage_jobs import outcome_text, stop_group, stop_job
from tests.support.services.following import RUNS_UNTIL_STOPPED, ended, running
from tests.support.services.harness import LocalHarness
from training.contract.errors import InputError
from training.services.launcher import submit


def test_each_job_of_a_group_is_stopped_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harness = LocalHarness(tmp_path)
    ended(submit(harness.service, harness.request("print(1)", name="study-a0r0")))
    running(submit(harness.service, harness.request(RUNS_UNTIL_STOPPED, name="study-a1r0")))
    assert stop_group(harness.service, "study") == 0
    already, request, outcome = capsys.readouterr().out.splitlines()
    assert already == "study: 1 job had already ended (1 completed)."
    assert request == "Stopping 1 job. Each job has 1 s to end."
    assert outcome.startswith("study-a1r0: stopped after ")
    assert outcome.endswith(" s")
    assert harness.service.describe("study-a1r0")["TrainingJobStatus"] == "Stopped"
    with pytest.raises(InputError, match="this group has no jobs here"):
        stop_group(harness.service, "other")


def test_a_job_that_had_ended_is_reported_as_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harness = LocalHarness(tmp_path)
    ended(submit(harness.service, harness.request("print(1)", name="good")))
    ended(submit(harness.service, harness.request("raise SystemExit(1)", name="bad")))
    assert [stop_job(harness.service, name) for name in ("good", "bad")] == [0, 0]
    assert capsys.readouterr().out == "good: had already completed\nbad: had already failed\n"


@pytest.mark.parametrize(
    ("description", "had_ended", "text"),
    [
        ({"TrainingJobStatus": "Stopped"}, False, "stopped before it started"),
        (
            {"TrainingJobStatus": "Stopped", "TrainingStartTime": 0, "TrainingTimeInSeconds": 150},
            False,
            "stopped after 2 min",
        ),
        ({"TrainingJobStatus": "Stopped"}, True, "had already been stopped"),
        ({"TrainingJobStatus": "Completed"}, False, "completed before it could be stopped"),
        (
            {"TrainingJobStatus": "Stopped", "SecondaryStatus": "MaxRuntimeExceeded"},
            True,
            "had already reached its time limit",
        ),
    ],
)
def test_the_outcome_in_words(description: dict[str, Any], had_ended: bool, text: str) -> None:
    whole = {"SecondaryStatus": description["TrainingJobStatus"], **description}
    assert outcome_text(whole, had_ended=had_ended) == text
