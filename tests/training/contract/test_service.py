"""Test what a job waits for, by descriptions as both services return them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from training.contract.plain_text import duration_text
from training.contract.service import billed_so_far, wait_of

CREATED = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def described(*transitions: tuple[str, str], **fields: Any) -> dict[str, Any]:
    """Return the description of a job with transitions a minute apart."""
    listed = [
        {"Status": status, "StatusMessage": message, "StartTime": CREATED + timedelta(minutes=at)}
        for at, (status, message) in enumerate(transitions)
    ]
    basics = {"TrainingJobStatus": "InProgress", "SecondaryStatus": transitions[-1][0], "CreationTime": CREATED}
    return {**basics, "SecondaryStatusTransitions": listed, **fields}


def test_a_local_job_names_its_cores_and_who_uses_them() -> None:
    reason = "2 cores (0 of 2 free, used by demo-1)"
    wait = wait_of(described(("Starting", "Starting"), ("Pending", f"Waiting for {reason}")))
    assert wait is not None
    assert (wait.reason, wait.since) == (reason, CREATED)


def test_a_local_job_that_starts_does_not_wait() -> None:
    local = {"ResourceConfig": {"InstanceType": "local"}}
    assert wait_of(described(("Starting", "Starting the training job"), **local)) is None
    assert wait_of(described(("Starting", ""), ("Downloading", ""))) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}}, "ml.g5.xlarge"),
        ({"ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 4}}, "4 x ml.g5.xlarge"),
        (
            {"ResourceConfig": {"InstanceType": "ml.g5.xlarge"}, "EnableManagedSpotTraining": True},
            "spot capacity of ml.g5.xlarge",
        ),
    ],
)
def test_a_job_at_sagemaker_waits_for_its_instances(fields: dict[str, Any], reason: str) -> None:
    message = "Preparing the instances for training"
    wait = wait_of(described(("Starting", "Starting"), ("Pending", message), **fields))
    assert wait is not None
    assert wait.reason == f"{reason} (Pending: {message})"


def test_an_interrupted_spot_job_waits_again() -> None:
    """Only the time since the interruption counts."""
    transitions = (
        ("Starting", ""),
        ("Training", ""),
        ("Interrupted", "Training job interrupted"),
        ("Starting", "again"),
    )
    wait = wait_of(described(*transitions, EnableManagedSpotTraining=True))
    assert wait is not None
    assert wait.since == CREATED + timedelta(minutes=2)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2.0 h"), (1e5, "27.8 h")],
)
def test_durations_have_one_unit(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def at(minutes: float) -> datetime:
    return CREATED + timedelta(minutes=minutes)


def test_the_live_cost_is_never_more_than_the_final_one() -> None:
    """Ten minutes are billed: three to seven and eleven to seventeen. Waits for instances are not."""
    spans = [
        ("Starting", 0, 3),
        ("Downloading", 3, 5),
        ("Training", 5, 7),
        ("Interrupted", 7, 9),
        ("Restarting", 9, 11),
    ]
    spans += [("Downloading", 11, 12), ("Training", 12, 17)]
    listed = [{"Status": status, "StartTime": at(start), "EndTime": at(end)} for status, start, end in spans]
    job: Any = {"TrainingJobStatus": "InProgress", "SecondaryStatusTransitions": listed}
    assert billed_so_far(job, at(16)) == 0  # it waits for its first instance
    job |= {"TrainingStartTime": at(3)}
    assert [billed_so_far({**job, "SecondaryStatusTransitions": listed[:n]}, at(m)) for n, m in ((2, 4), (4, 8))] == [
        60,
        240,
    ]
    assert billed_so_far(job, at(16.999)) == 599  # whole seconds, as the final number may be rounded down
    spot = {**job, "EnableManagedSpotTraining": True}
    assert billed_so_far(spot, at(17)) == 60  # AWS saves at most 90 %
    ended = {**spot, "TrainingJobStatus": "Completed", "TrainingEndTime": at(17), "LastModifiedTime": at(17)}
    assert billed_so_far(ended, at(30)) == 60
    assert billed_so_far({**ended, "BillableTimeInSeconds": 180}, at(30)) == 180
