"""Warm pool of a simulated job: its instances are kept until another job takes them or the pool ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass
class WarmPool:
    """Warm pool of one job."""

    is_requested: bool
    next_job: str | None = None
    """Job that took the instances."""
    ended: datetime | None = None

    def end(self, next_job: str | None = None) -> None:
        """End the pool, or give its instances to the next job."""
        self.next_job, self.ended = next_job, datetime.now(UTC)

    def description(self, job_ended: datetime | None) -> dict[str, Any]:
        """Return the pool's fields of the job's description."""
        if not self.is_requested:
            return {}
        if job_ended is None or self.ended is None:
            return {"WarmPoolStatus": {"Status": "InUse" if job_ended is None else "Available"}}
        seconds = {"ResourceRetainedBillableTimeInSeconds": 1 + round((self.ended - job_ended).total_seconds())}
        reused = {"Status": "Reused", "ReusedByJob": self.next_job} if self.next_job else {"Status": "Terminated"}
        return {"WarmPoolStatus": {**reused, **seconds}}
