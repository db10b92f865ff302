"""Jobs that end because the service has no instances for them, and the names of their further attempts. Pure."""

from __future__ import annotations

import hashlib
import re

from training.contract.service import Description

MAX_NAME_CHARACTERS = 63
_DIGEST_CHARACTERS = 8


def lacks_capacity(description: Description) -> bool:
    """Return whether a job ended without an instance, and so without a cost.

    SageMaker then reports the status Failed and a reason such as "CapacityError: Unable to provision requested ML
    compute capacity. Please retry using a different ML instance type." (DIAGNijmegen/rse-grand-challenge#2631).
    """
    return (
        description["TrainingJobStatus"] == "Failed"
        and re.match(r"CapacityError\b", str(description.get("FailureReason", ""))) is not None
        and "TrainingStartTime" not in description
        and not description.get("BillableTimeInSeconds")
    )


def attempt_name(job_name: str, attempt: int) -> str:
    """Return the service's name of a job's attempt; the first attempt, number 0, has the job's own name.

    The name follows from the job's name alone, and a service accepts each name once. So all launchers of a job start
    the same attempt, and none runs twice.
    """
    if attempt == 0:
        return job_name
    suffix = f"-c{attempt}"
    if len(job_name) + len(suffix) > MAX_NAME_CHARACTERS:
        digest = hashlib.sha256(job_name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        start = job_name[: MAX_NAME_CHARACTERS - len(suffix) - len(digest) - 1].rstrip("-")
        return f"{start}-{digest}{suffix}"
    return job_name + suffix
