"""Read a job's log in CloudWatch page by page, each line once.

CloudWatch may return events late, repeatedly, or out of order among streams. Therefore each page reads the last
`LATE_SECONDS` of the log again, and drops events whose id was read before. Events that arrive even later are read at
the end of the job, when the whole log is read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from training.contract.errors import ServiceError
from training.contract.service import LogPage

GROUP = "/aws/sagemaker/TrainingJobs"
LATE_SECONDS = 60
CLOCK_SECONDS = 3600
"""Most by which an instance's clock may be behind that of SageMaker."""
PAGE_EVENTS = 10_000
"""Maximum number of events that FilterLogEvents returns per call."""


@dataclass(frozen=True)
class Cursor:
    """Position up to which a log was read."""

    newest_ms: int = 0
    """Time of the newest event that was read, in milliseconds since the epoch."""
    recent_ids: frozenset[str] = frozenset()
    """Ids of events that were read and may be returned again."""

    @property
    def from_ms(self) -> int:
        """Time from which to request events, in milliseconds since the epoch."""
        return max(0, self.newest_ms - 1000 * LATE_SECONDS)

    def text(self) -> str:
        return json.dumps([self.newest_ms, sorted(self.recent_ids)])


def first_cursor(created: datetime) -> Cursor:
    """Return the cursor of a log's start. `created` is the time when the job was created."""
    return Cursor(int(1000 * (created.timestamp() - CLOCK_SECONDS)))


def read_cursor(text: str | None) -> Cursor:
    """Return the cursor that `Cursor.text` wrote. Raises ServiceError for anything else."""
    if text is None:
        return Cursor()
    try:
        newest, recent_ids = json.loads(text)
        return Cursor(int(newest), frozenset(str(each) for each in recent_ids))
    except (ValueError, TypeError) as error:
        raise ServiceError(f"'{text[:80]}' is not a cursor of the SageMaker service.") from error


def page(events: Sequence[Mapping[str, Any]], cursor: Cursor) -> LogPage:
    """Return the lines of those `events` that were not read before, ordered by time, with the new cursor."""
    fresh = {each["eventId"]: each for each in events if each["eventId"] not in cursor.recent_ids}
    # Ids are increasing numbers, so a shorter id is smaller.
    ordered = sorted(fresh.values(), key=lambda each: (each["timestamp"], len(each["eventId"]), each["eventId"]))
    newest_ms = max([cursor.newest_ms, *(each["timestamp"] for each in ordered)])
    after = Cursor(newest_ms)
    # Every event that may be returned again is among `events`, which start earlier than `after.from_ms`.
    recent_ids = {each["eventId"] for each in events if each["timestamp"] >= after.from_ms}
    lines, times = [], []
    for each in ordered:
        prefix = _instance_prefix(each.get("logStreamName", ""))
        for line in str(each["message"]).rstrip("\n").split("\n"):
            lines.append(prefix + line)
            times.append(each["timestamp"] / 1000)
    return LogPage(lines=lines, cursor=Cursor(newest_ms, frozenset(recent_ids)).text(), times=times)


def _instance_prefix(stream: str) -> str:
    """Return the prefix for lines of a stream `JOB/algo-2-TIME`: the instance's name, or "" for the first instance."""
    instance = stream.rpartition("/")[2].rpartition("-")[0]
    return "" if instance in {"", "algo-1"} else f"[{instance}] "
