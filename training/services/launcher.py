"""Submit, follow, attach to and stop a job, in the same way on every service."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from training.contract.errors import JobExists, JobNotFound, TrainfareError
from training.contract.events import Event, EventReader
from training.contract.failures import vanished_description
from training.contract.retry import growing_pauses
from training.contract.service import (
    BEFORE_TRAINING,
    TERMINAL_STATUSES,
    Description,
    LogPage,
    Request,
    Service,
    end_of,
    is_billed,
)

BACK_OFF = 1.5
VANISHED_AFTER_LOOKS = 3
"""Looks without a result after which a created job counts as deleted. A new job may not be visible at first."""
SILENT_DELAYS = 4
"""A log without an event that ends it is complete after so many usual delays without a line."""
LOOKS_WITH_LINES = 5
"""While a job prints lines, it is described once in this many looks."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """Log lines, events and state that are new since the previous update."""

    lines: Sequence[str]
    """Log lines."""
    times: Sequence[float]
    """Time at which each line was written, seconds since the epoch."""
    events: Sequence[Event]
    """Events that these lines complete, in order."""
    description: Description | None
    """The job's state if it changed, else None."""
    is_whole: bool = False
    """True if `lines` are the whole log again, because some lines arrived out of order."""


class Follower:
    """Reader of a job's log and state. It looks only on request, so that one thread can follow many jobs.

    A look makes only the calls that may return something new: a job that has not started training has no log, and a
    job that prints lines is still running.
    """

    def __init__(
        self,
        job: Job,
        *,
        emits_events: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Follow a job that was created. If it is missing later, it has failed.

        Set `emits_events` for a job of ours: its log ends with a result if it completes.
        """
        self.job = job
        self._emits_events, self._has_end_event = emits_events, False
        self._looks_without_result = 0
        self.description: Description | None = None
        self.described_at = datetime.now(UTC)
        """Time at which the job was last described: later, it may have ended."""
        self.ended = False
        """True once the job has ended and its whole log has been read."""
        self.pause_seconds = 0.0
        """Pause before the next look, in seconds. It is short after a change, and grows while nothing changes."""
        self._cursor: str | None = None
        self._clock = clock
        self._reader = EventReader()
        self._line_count = 0
        self._looks_with_lines = 0
        self._ended_at: float | None = None
        self._newest_at = clock()
        """Time of the latest new lines."""
        self._give_up_at = 0.0
        """Time up to which the end of the log and the billed seconds are awaited."""
        self._pauses = _pauses(job.service)

    def look(self) -> Update | None:
        """Return the changes since the last look, or None."""
        # Describe the job before reading its log: if the description says that it has ended, the log is complete.
        changed = self._refresh_description()
        page = self._next_page()
        self._looks_with_lines = self._looks_with_lines + 1 if page.lines else 0
        self._line_count += len(page.lines)
        self._newest_at = self._clock() if page.lines else self._newest_at
        update = self._update(page, changed=changed) if changed or page.lines else None
        self.pause_seconds = self._pause(changed or bool(page.lines))
        self.ended = not page.lines and self._seconds_to_end() == 0
        if self.ended and (late := self._late_lines()):
            self._line_count, self._reader = len(late.lines), EventReader()
            return self._update(late, changed=True, is_whole=True)
        return update

    @property
    def missing(self) -> tuple[str, ...]:
        """Records of an ended job that have not arrived: `log` for the end of its log, and `billing`.

        A user's script, and a job of ours that fails, may end a log with any line. Such a log counts as complete.
        """
        has_vanished = self._looks_without_result >= VANISHED_AFTER_LOOKS
        if self._ended_at is None or self.description is None or has_vanished or not self._delay_seconds:
            return ()
        is_completed = self.description["TrainingJobStatus"] == "Completed"
        lacks_end = self._emits_events and is_completed and not self._has_end_event
        lacks_log = self._has_trained and (lacks_end or not self._line_count)
        return ("log",) * lacks_log + ("billing",) * (not is_billed(self.description))

    @property
    def is_late(self) -> bool:
        """True if the job has ended and its records take longer than usual: twice the delay of its service's log."""
        delay_seconds = self._delay_seconds
        return self._ended_at is not None and 0 < 2 * delay_seconds <= self._clock() - self._ended_at

    @property
    def _has_trained(self) -> bool:
        """True if the container was started: before, a job has no log."""
        transitions = self.description.get("SecondaryStatusTransitions", []) if self.description else []
        return any(each["Status"] == "Training" for each in transitions)

    @property
    def _delay_seconds(self) -> float:
        return self.job.service.log_delay_seconds

    def _refresh_description(self) -> bool:
        """Describe the job if its state may have changed, and return whether it has changed."""
        if self._ended_at is not None:
            return self._refresh_billing()
        if 0 < self._looks_with_lines < LOOKS_WITH_LINES:
            return False
        self._looks_with_lines = 0
        self.described_at = datetime.now(UTC)
        before, self.description = self.description, self._describe()
        if self.description and self.description["TrainingJobStatus"] in TERMINAL_STATUSES:
            self._ended_at = self._clock()
            # The clock of the service counts only for a job that had ended before.
            age_seconds = 0.0 if before else max(0.0, time.time() - end_of(self.description).timestamp())
            self._give_up_at = self._ended_at + self.job.service.longest_delay_seconds - age_seconds
        return self.description != before

    def _refresh_billing(self) -> bool:
        """Describe an ended job again while its billed seconds are missing, and return whether it has changed."""
        if "billing" not in self.missing:
            return False
        before = self.description
        with contextlib.suppress(JobNotFound):
            self.description = self.job.describe()
        return self.description != before

    def _describe(self) -> Description | None:
        """Return the job's last known state."""
        try:
            description = self.job.describe()
        except JobNotFound as error:
            self._looks_without_result += 1
            if self._looks_without_result < VANISHED_AFTER_LOOKS:
                return self.description
            return vanished_description(self.job.name, self.description, str(error))
        self._looks_without_result = 0
        return description

    def _next_page(self) -> LogPage:
        if self.description is None or self.description["SecondaryStatus"] in BEFORE_TRAINING:
            return LogPage(lines=[], cursor=self._cursor)
        page = self._logs(self._cursor)
        self._cursor = page.cursor
        return page

    def _logs(self, cursor: str | None) -> LogPage:
        """Return a page of the log, which may still exist after the job was deleted."""
        try:
            return self.job.service.logs(self.job.name, cursor)
        except JobNotFound:
            if not self._looks_without_result:
                raise
            return LogPage(lines=[], cursor=cursor)

    def _pause(self, has_changed: bool) -> float:
        if has_changed:
            self._pauses = _pauses(self.job.service)
        pause_seconds, to_end = next(self._pauses), self._seconds_to_end()
        return to_end if 0 < to_end <= self._delay_seconds else min(pause_seconds, to_end or math.inf)

    def _seconds_to_end(self) -> float:
        """Return the seconds for which records of the job are awaited. For a job that has not ended, return infinity.

        Most logs are complete after the usual delay. A log without an event that ends it must also be silent.
        """
        if self._ended_at is None or self.description is None:
            return math.inf
        ends = [self._ended_at + self._delay_seconds]
        if self.missing:
            ends.append(self._give_up_at)
        if not self._has_end_event and self._has_trained:
            silent_from = max(self._ended_at, self._newest_at) + SILENT_DELAYS * self._delay_seconds
            ends.append(min(silent_from, self._give_up_at))
        return max(0.0, max(ends) - self._clock())

    def _late_lines(self) -> LogPage | None:
        """Return the whole log if it has more lines than were read: a line may be stored after later lines."""
        if not self._delay_seconds:
            return None
        whole = self._logs(None)
        return whole if len(whole.lines) > self._line_count else None

    def _update(self, page: LogPage, *, changed: bool, is_whole: bool = False) -> Update:
        events = self._reader.read(page.lines)
        for event in events:
            if event.kind in {"start", "result", "failure"}:
                self._has_end_event = event.kind != "start"
        return Update(
            lines=page.lines,
            times=page.times,
            events=events,
            description=self.description if changed else None,
            is_whole=is_whole,
        )


@dataclass(frozen=True)
class Job:
    """A job on a service. Its name identifies it, so any process can reopen it."""

    service: Service
    name: str

    def describe(self) -> Description:
        return self.service.describe(self.name)

    def stop(self) -> None:
        self.service.stop(self.name)


def submit(service: Service, request: Request) -> Job:
    """Start the job, or attach to an existing job of that name. No job is ever started twice."""
    with contextlib.suppress(JobExists):
        service.create(request)
    return Job(service, request["TrainingJobName"])


def stop_all(stops: Iterable[Callable[[], object]]) -> None:
    """Stop all jobs, even if stopping one fails. Then raise the first error.

    A job that no longer exists is skipped, because its follower reports it.
    """
    errors: list[TrainfareError] = []
    for stop in stops:
        try:
            stop()
        except JobNotFound:
            continue
        except TrainfareError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _pauses(service: Service) -> Iterator[float]:
    """Yield the pauses between two looks at a job, in seconds. They grow while nothing changes."""
    shortest_seconds, longest_seconds = service.pauses_seconds
    return growing_pauses(shortest_seconds, BACK_OFF, longest_seconds)
