"""The longest wait of a spot job."""

from __future__ import annotations

from typing import Any

import pytest

from training.contract.job_spec import JobSpec

DAY = 86_400


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"max_run_seconds": 60}, None),
        ({"max_run_seconds": 60, "spot": True}, 60 + DAY),
        ({"max_run_seconds": 60, "spot": True, "max_wait_seconds": 90}, 90),
        # 28 days are the longest run of a job.
        ({"max_run_seconds": 28 * DAY - 1, "spot": True}, 28 * DAY),
        ({"max_run_seconds": 29 * DAY, "spot": True}, 29 * DAY),
    ],
)
def test_a_spot_job_may_wait_longer_than_it_runs(fields: dict[str, Any], seconds: int | None) -> None:
    spec = JobSpec(name="a", hyperparameters={}, channels={}, source_uri="s3://b/s", output_uri="s3://b/o", **fields)
    assert spec.longest_wait_seconds == seconds
