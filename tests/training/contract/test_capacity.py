"""Jobs that end without an instance."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from training.contract.failures import lacks_capacity

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
