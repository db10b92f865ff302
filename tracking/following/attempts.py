"""Start a job again for which the service had no instances, a few times and never twice at once."""

from __future__ import annotations

import hashlib

from tracking.budgets.records import with_limit
from training.contract import request
from training.contract.errors import JobNotFound
from training.contract.failures import lacks_capacity
from training.contract.job_spec import JobSpec
from training.contract.service import Description, Service
from training.services.launcher import Job, submit

MAX_NAME_CHARACTERS = 63
"""Longest name of a job: `training.contract.job_spec.JOB_NAME_PATTERN`."""
_DIGEST_CHARACTERS = 8


def attempt_name(job_name: str, attempt: int) -> str:
    """Return the service's name of a job's attempt; the first attempt, number 0, has the job's own name.

    The name follows from the job's name alone, and a service accepts each name once. So all launchers of a job start
    the same attempt, and none runs twice.
    """
    if attempt == 0:
        return job_name
    suffix = f"-c{attempt}"
    if len(job_name) + len(suffix) <= MAX_NAME_CHARACTERS:
        return job_name + suffix
    digest = hashlib.sha256(job_name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    start = job_name[: MAX_NAME_CHARACTERS - len(suffix) - len(digest) - 1].rstrip("-")
    return f"{start}-{digest}{suffix}"


class Attempts:
    """The attempts of one job.

    It keeps no state that another launcher would need: the first attempt has the job's name, each failed attempt is
    followed by the next, and names follow from the job's name. A launcher that attaches later reads the failed attempts
    and ends at the one that runs. An attempt without an instance costs nothing, so the part of a budget that is
    reserved for the job suffices for the attempt that runs.
    """

    def __init__(self, spec: JobSpec, service: Service) -> None:
        self._spec, self._service = spec, service
        self.number = 0
        """Number of the current attempt; the first is 0."""
        self.is_waiting = False
        """True while the next attempt is planned and not submitted."""

    @property
    def position(self) -> str:
        """Number of the next attempt and of all, such as `attempt 2 of 4`."""
        return f"attempt {self.number + 2} of {len(self._spec.capacity_retry_minutes) + 1}"

    def plan(self, description: Description, now: float) -> float | None:
        """Return the seconds until the next attempt of a job with this final description; None if it has none.

        The pause counts from the end of the failed attempt, which another launcher may have followed. `now` is in
        seconds since the epoch.
        """
        minutes = self._spec.capacity_retry_minutes
        if not lacks_capacity(description) or self.number >= len(minutes):
            return None
        self.is_waiting = True
        ended = description["LastModifiedTime"].timestamp()
        return float(max(0.0, ended + 60 * minutes[self.number] - now))

    def start(self, failed: Description) -> Job:
        """Submit the next attempt, or attach to it. It has the time limit of the failed one.

        Raises QuotaError or InputError if the service refuses it.
        """
        limited = with_limit(self._spec, int(failed["StoppingCondition"]["MaxRuntimeInSeconds"]))
        spec = limited.model_copy(update={"name": self._next_name})
        return self._started(submit(self._service, request.build(spec)))

    def existing(self) -> Job | None:
        """Return the next attempt if a launcher has submitted it, or None. Submits nothing."""
        job = Job(self._service, self._next_name)
        try:
            job.describe()
        except JobNotFound:
            return None
        return self._started(job)

    @property
    def _next_name(self) -> str:
        return attempt_name(self._spec.name, self.number + 1)

    def _started(self, job: Job) -> Job:
        self.number += 1
        self.is_waiting = False
        return job
