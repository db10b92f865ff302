"""Faults of a killed job, by hand-made notes and runs."""

from __future__ import annotations

import pytest
from mlflow.entities import Metric, Run, RunData, RunInfo, RunTag

from benchmarks.slurm.group import Note
from benchmarks.slurm.kills import Faults, check_job


def run(status: str, billed_seconds: float, failure: str = "") -> Run:
    tags = {"platform.job_name": "job", "platform.failure_class": "Killed", "platform.failure_message": failure}
    return Run(
        RunInfo("id", "0", "user", status, 0, 0, "active"),
        RunData([Metric("cost/billable_seconds", billed_seconds, 0, 0)], [], [RunTag(*each) for each in tags.items()]),
    )


def notes(*words: str) -> list[Note]:
    """Return notes from words such as `script 1.0 3.5`: kind, attempt, seconds."""
    return [
        Note(kind=kind, job="job", attempt=attempt, time=float(at), pid=1)
        for kind, attempt, at in (each.split() for each in words)
    ]


ONCE = ("allocation 1.0 0", "script 1.0 0.5", "step 1.0 2", "end 1.0 4")
REQUEUED = ("allocation 1.0 0", "script 1.0 0.5", "step 1.0 2", "allocation 1.1 12", "script 1.1 12.5", "end 1.1 15")


@pytest.mark.parametrize(
    ("kind", "found", "lines", "fault"),
    [
        ("launcher", run("FINISHED", 4.2), ONCE, None),
        ("launcher", run("RUNNING", 4.2), ONCE, "lost"),
        ("launcher", run("FINISHED", 4.2), (*ONCE, "script 1.0 1"), "doubled"),
        ("launcher", run("FINISHED", 4.2), (*ONCE, "allocation 2.0 4"), "doubled"),
        ("launcher", run("FINISHED", 8.4), ONCE, "billed_twice"),
        ("launcher", run("FINISHED", 0.0), ONCE, "lost"),
        # 2 s and 3 s ran; the job waited 10 s.
        ("requeue", run("FINISHED", 5.3), REQUEUED, None),
        ("requeue", run("FINISHED", 15.3), REQUEUED, "billed_twice"),
        ("script", run("FAILED", 2.1, "Killed by SIGKILL"), ONCE[:3], None),
        ("script", run("FAILED", 2.1, "it stopped"), ONCE[:3], "lost"),
        ("launcher", run("FAILED", 2.1, "Killed by SIGKILL"), ONCE[:3], "lost"),
        ("supervisor", run("FINISHED", 2.1), ONCE[:3], "lost"),
    ],
)
def test_faults_of_a_job(kind: str, found: Run, lines: tuple[str, ...], fault: str | None) -> None:
    faults = Faults()
    check_job(found, notes(*lines), kind, faults)
    names = ("lost", "doubled", "billed_twice", "left")
    assert [name for name in names if getattr(faults, name)] == ([fault] if fault else [])
