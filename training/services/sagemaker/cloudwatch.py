"""A job's log in CloudWatch, read page by page, each line once.

CloudWatch gives events late, out of order among streams, and sometimes again. Each event has an id; what was seen
within the last `LATE_SECONDS` of the log is asked for again and told apart by it. What comes later than that is in the
log's full reading, from the start, once the job has ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training.contract.errors import ServiceError
from training.contract.service import LogPage

GROUP = "/aws/sagemaker/TrainingJobs"
LATE_SECONDS = 60
PAGE_EVENTS = 10_000
"""As many as FilterLogEvents gives at once."""


@dataclass(frozen=True)
class Cursor:
    """How far a log was read."""

    newest_ms: int = 0
    """Time of the newest event seen, milliseconds since the epoch."""
    seen: frozenset[str] = frozenset()
    """Ids of the events seen that may be given again."""

    @property
    def from_ms(self) -> int:
        """From when on events are asked for."""
        return max(0, self.newest_ms - 1000 * LATE_SECONDS)

    def text(self) -> str:
        return json.dumps([self.newest_ms, sorted(self.seen)])


def read_cursor(text: str | None) -> Cursor:
    """Return the cursor that `Cursor.text` wrote. Raises ServiceError for anything else."""
    if text is None:
        return Cursor()
    try:
        newest, seen = json.loads(text)
        return Cursor(int(newest), frozenset(str(each) for each in seen))
    except (ValueError, TypeError) as error:
        raise ServiceError(f"'{text[:80]}' is no place in a log of SageMaker's.") from error


def page(events: Sequence[Mapping[str, Any]], cursor: Cursor) -> LogPage:
    """Return the lines among `events` that `cursor` has not seen, in the order of their times, and how far that is."""
    fresh = {each["eventId"]: each for each in events if each["eventId"] not in cursor.seen}
    # Ids are numbers that grow.
    ordered = sorted(fresh.values(), key=lambda each: (each["timestamp"], len(each["eventId"]), each["eventId"]))
    newest_ms = max([cursor.newest_ms, *(each["timestamp"] for each in ordered)])
    after = Cursor(newest_ms)
    # All that may be given again is among these events: they were asked for from before this moment on.
    kept = {each["eventId"] for each in events if each["timestamp"] >= after.from_ms}
    lines, times = [], []
    for each in ordered:
        machine = _other_machine(each.get("logStreamName", ""))
        for line in str(each["message"]).rstrip("\n").split("\n"):
            lines.append(machine + line)
            times.append(each["timestamp"] / 1000)
    return LogPage(lines=lines, cursor=Cursor(newest_ms, frozenset(kept)).text(), times=times)


def _other_machine(stream: str) -> str:
    """Return what the lines of a stream `JOB/algo-2-TIME` begin with: nothing on the first machine."""
    machine = stream.rpartition("/")[2].rpartition("-")[0]
    return "" if machine in {"", "algo-1"} else f"[{machine}] "
