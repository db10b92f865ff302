"""Submit a job, follow it, attach to it again, stop it: the same over every service."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from training.contract.errors import JobExists, JobNotFound, TrainfareError
from training.contract.events import Event, EventReader
from training.contract.failures import failure_of, vanished
from training.contract.retry import Sleep, growing_pauses
from training.contract.service import BEFORE_TRAINING, TERMINAL_STATUSES, Description, LogPage, Request, Service

__all__ = ["Follower", "Job", "Update", "failure_of", "stop_all", "submit"]

BACK_OFF = 1.5
VANISHED_AFTER_LOOKS = 3
"""At which a job that was created is not found: a new one may not be known everywhere at once."""
LOOKS_WITH_LINES = 5
"""A job whose lines come is described at every fifth look."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """What is new since the update before."""

    lines: Sequence[str]
    """Log lines."""
    times: Sequence[float]
    """When each was written, seconds since the epoch."""
    events: Sequence[Event]
    """Events that those lines complete, in order."""
    description: Description | None
    """The job's state where it changed, else None."""
    cursor: str | None
    """Where to follow on from: pass it to `follow` to see only what comes after this update. None is the start."""
    is_whole: bool = False
    """Whether `lines` are the whole log once more, because some had come too late to be seen in their order."""


class Follower:
    """Reads a job's log and state on from look to look, so that one thread can follow many jobs.

    A look asks for no more than may be new: a job that has not come to its training has no log, and one whose lines
    come is running.
    """

    def __init__(
        self,
        job: Job,
        cursor: str | None = None,
        *,
        exists: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`exists` tells that the job was created: one that is not found then has vanished, which is a failure."""
        self.job = job
        self._exists, self._missed = exists, 0
        self.description: Description | None = None
        self.ended = False
        """True once the job has ended and its log is read out; there is nothing more to look for then."""
        self.pause_seconds = 0.0
        """Pause before the next look, seconds: short after something new, growing while nothing is."""
        self._from_start = cursor is None
        self._cursor, self._clock = cursor, clock
        self._reader = EventReader()
        self._lines_seen = 0
        self._looks_with_lines = 0
        self._end_seen_at: float | None = None
        self._pauses = _pauses(job.service)

    def look(self) -> Update | None:
        """Return what is new, or None."""
        # Described first: once a job has ended, the log that is read afterwards is all there is.
        changed = self._is_described_anew()
        page = self._next_page()
        self._looks_with_lines = self._looks_with_lines + 1 if page.lines else 0
        self._lines_seen += len(page.lines)
        self.pause_seconds = self._pause(changed or bool(page.lines))
        self.ended = not page.lines and self._seconds_to_end() == 0
        if self.ended and (late := self._late_lines()):
            self._reader = EventReader()
            return self._update(late, changed=True, is_whole=True)
        return self._update(page, changed=changed) if changed or page.lines else None

    def _is_described_anew(self) -> bool:
        """Describe the job where it may have changed, and return whether it has."""
        if self._end_seen_at is not None or 0 < self._looks_with_lines < LOOKS_WITH_LINES:
            return False
        self._looks_with_lines = 0
        before, self.description = self.description, self._described()
        if self.description and self.description["TrainingJobStatus"] in TERMINAL_STATUSES:
            self._end_seen_at = self._clock()
        return self.description != before

    def _described(self) -> Description | None:
        """Return the job's state, as far as it is known. Raises JobNotFound for a job that never was."""
        try:
            description = self.job.describe()
        except JobNotFound as error:
            if not self._exists:
                raise
            self._missed += 1
            if self._missed < VANISHED_AFTER_LOOKS:
                return self.description
            return vanished(self.job.name, self.description, str(error))
        self._exists, self._missed = True, 0
        return description

    def _next_page(self) -> LogPage:
        if self.description is None or self.description["SecondaryStatus"] in BEFORE_TRAINING:
            return LogPage(lines=[], cursor=self._cursor)
        page = self._logs(self._cursor)
        self._cursor = page.cursor
        return page

    def _logs(self, cursor: str | None) -> LogPage:
        """Return lines of the log, which may be there when the job is not any more."""
        try:
            return self.job.service.logs(self.job.name, cursor)
        except JobNotFound:
            if not self._missed:
                raise
            return LogPage(lines=[], cursor=cursor)

    def _pause(self, something_new: bool) -> float:
        if something_new:
            self._pauses = _pauses(self.job.service)
        pause_seconds, to_end = next(self._pauses), self._seconds_to_end()
        return max(pause_seconds, to_end) if to_end < math.inf else pause_seconds

    def _seconds_to_end(self) -> float:
        """Return how long more lines may still come, seconds; of a job that has not ended, for ever."""
        if self._end_seen_at is None:
            return math.inf
        return max(0.0, self._end_seen_at + self.job.service.log_delay_seconds - self._clock())

    def _late_lines(self) -> LogPage | None:
        """Return the whole log where it holds more than was seen of it: lines may be stored behind later ones."""
        if not self.job.service.log_delay_seconds or not self._from_start:
            return None
        whole = self._logs(None)
        return whole if len(whole.lines) > self._lines_seen else None

    def _update(self, page: LogPage, *, changed: bool, is_whole: bool = False) -> Update:
        return Update(
            lines=page.lines,
            times=page.times,
            events=self._reader.read(page.lines),
            description=self.description if changed else None,
            cursor=page.cursor,
            is_whole=is_whole,
        )


@dataclass(frozen=True)
class Job:
    """A job at a service, known by its name alone: any process may rebuild it on any day."""

    service: Service
    name: str

    def describe(self) -> Description:
        """Return the job's state now. Raises JobNotFound."""
        return self.service.describe(self.name)

    def stop(self) -> None:
        """Ask the job to stop; returns at once."""
        self.service.stop(self.name)

    def follow(self, cursor: str | None = None, *, sleep: Sleep = time.sleep) -> Iterator[Update]:
        """Yield what is new, from the log's start or `cursor` on, until the job has ended and its log is read out."""
        follower = Follower(self, cursor)
        while not follower.ended:
            if update := follower.look():
                yield update
            if not follower.ended:
                sleep(follower.pause_seconds)

    def wait(self, *, sleep: Sleep = time.sleep) -> Description:
        """Return the description once the job has ended."""
        pauses = _pauses(self.service)
        while (description := self.describe())["TrainingJobStatus"] not in TERMINAL_STATUSES:
            sleep(next(pauses))
        return description


def submit(service: Service, request: Request) -> Job:
    """Start the job, or attach to the one that has its name: no job is ever started twice."""
    with contextlib.suppress(JobExists):
        service.create(request)
    return Job(service, request["TrainingJobName"])


def stop_all(stops: Iterable[Callable[[], object]]) -> None:
    """Ask all jobs to stop, also after one that could not be asked. Raises the first one's error at the end.

    One that has vanished needs no asking: whoever follows it hears of that.
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
    """Yield the pauses between two looks at a job in seconds; they grow for as long as nothing changes."""
    shortest_seconds, longest_seconds = service.pauses_seconds
    return growing_pauses(shortest_seconds, BACK_OFF, longest_seconds)
