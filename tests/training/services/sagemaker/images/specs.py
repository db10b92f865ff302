"""A job spec for tests of images."""

from __future__ import annotations

from typing import Any

from training.contract.job_spec import JobSpec


def spec(**fields: Any) -> JobSpec:
    """Return our own job on an ml.g5.xlarge in us-east-1, with other fields."""
    own: dict[str, Any] = {"name": "job", "hyperparameters": {}, "channels": {}, "source_uri": "s3://b/source"}
    own |= {"output_uri": "s3://b/output", "instance_type": "ml.g5.xlarge", "region": "us-east-1"}
    return JobSpec(**{**own, **fields})
