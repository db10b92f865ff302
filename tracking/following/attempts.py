"""Start a job again for which the service had no instances, a few times and never twice at once."""

from __future__ import annotations

from tracking.budgets.records import with_limit
from training.contract import request
from training.contract.capacity import attempt_name, lacks_capacity
from training.contract.job_spec import JobSpec
from training.contract.service import Description, Service
from training.services.launcher import Job, submit


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
        return f"attempt {self.number + 2} of {len(self._service.capacity_pauses_seconds) + 1}"

    def plan(self, description: Description, now: float) -> float | None:
        """Return the seconds until the next attempt of a job with this final description; None if it has none.

        The pause counts from the end of the failed attempt, which another launcher may have followed. `now` is in
        seconds since the epoch.
        """
        pauses_seconds = self._service.capacity_pauses_seconds
        if not lacks_capacity(description) or self.number >= len(pauses_seconds):
            return None
        self.is_waiting = True
        ended = description["LastModifiedTime"].timestamp()
        return float(max(0.0, ended + pauses_seconds[self.number] - now))

    def start(self, failed: Description) -> Job:
        """Submit the next attempt, or attach to it. It has the time limit of the failed one.

        Raises QuotaError or InputError if the service refuses it.
        """
        limited = with_limit(self._spec, int(failed["StoppingCondition"]["MaxRuntimeInSeconds"]))
        spec = limited.model_copy(update={"name": attempt_name(self._spec.name, self.number + 1)})
        job = submit(self._service, request.build(spec))
        self.number += 1
        self.is_waiting = False
        return job
