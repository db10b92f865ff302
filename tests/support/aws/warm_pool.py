"""A job's machines after its end: kept for a next job, until one takes them or they go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass
class WarmPool:
    """Of one job."""

    is_asked_for: bool
    heir: str | None = None
    """Job that took the machines."""
    ended: datetime | None = None

    def end(self, heir: str | None = None) -> None:
        """Have the machines go, or be taken."""
        self.heir, self.ended = heir, datetime.now(UTC)

    def told(self, left: datetime | None) -> dict[str, Any]:
        """Return what a description says; `left` is when the job ended."""
        if not self.is_asked_for:
            return {}
        if left is None or self.ended is None:
            return {"WarmPoolStatus": {"Status": "InUse" if left is None else "Available"}}
        seconds = {"ResourceRetainedBillableTimeInSeconds": 1 + round((self.ended - left).total_seconds())}
        reused = {"Status": "Reused", "ReusedByJob": self.heir} if self.heir else {"Status": "Terminated"}
        return {"WarmPoolStatus": {**reused, **seconds}}
