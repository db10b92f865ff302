"""Jobs without instances, and the names of their attempts."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from training.contract.capacity import attempt_name, lacks_capacity
from training.contract.job_spec import JOB_NAME_PATTERN

REASON = "CapacityError: Unable to provision requested ML compute capacity. Please retry using a different type."
FAILED = {"TrainingJobStatus": "Failed", "FailureReason": REASON}


@pytest.mark.parametrize(
    ("description", "lacks"),
    [
        (FAILED, True),
        ({**FAILED, "TrainingJobStatus": "Stopped"}, False),
        ({**FAILED, "FailureReason": "AlgorithmError: the script printed CapacityError"}, False),
        ({"TrainingJobStatus": "Failed"}, False),
        # A job that had an instance was billed.
        ({**FAILED, "TrainingStartTime": datetime.now(UTC)}, False),
        ({**FAILED, "BillableTimeInSeconds": 7}, False),
        ({**FAILED, "BillableTimeInSeconds": 0}, True),
    ],
)
def test_only_a_job_without_an_instance_lacks_capacity(description: dict[str, Any], lacks: bool) -> None:
    assert lacks_capacity(description) is lacks


def test_the_names_of_attempts_follow_from_the_name_of_the_job() -> None:
    assert [attempt_name("demo-1-none-a0r0", number) for number in range(3)] == [
        "demo-1-none-a0r0",
        "demo-1-none-a0r0-c1",
        "demo-1-none-a0r0-c2",
    ]


def test_long_names_stay_valid_and_different() -> None:
    long = [f"{'a' * 51}-{'b' * 10}{at}" for at in range(2)]
    names = [attempt_name(name, number) for name in long for number in (1, 2, 12)]
    assert len(set(names)) == 6
    assert all(re.fullmatch(JOB_NAME_PATTERN, name) for name in names), names
