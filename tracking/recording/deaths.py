"""The exception of which a job died, as tags of its run. All launchers decide by these tags whether to start more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from judging.doomed import MOMENTS, Death, Moment
from training.contract.events import Event
from training.contract.failures import LastException, last_exception

EXCEPTION, MOMENT = "platform.exception", "platform.exception_moment"
_CLASSES = frozenset({"Error", "OutOfMemory"})
"""Failure classes of jobs that ended themselves. Others were stopped, killed, or had no room or no data."""


def death_of(failure: tuple[str, str], events: Iterable[Event], log_tail: Sequence[str]) -> Death | None:
    """Return the exception of which a job died; None if it did not die of one. `failure` is (class, reason)."""
    if failure[0] not in _CLASSES:
        return None
    exception = _exception(events, log_tail)
    if exception is None:
        return None
    has_stepped = any(each.kind == "metric" and each.fields.get("step", 0) > 0 for each in events)
    moment: Moment = "import" if exception.is_at_import else "later" if has_stepped else "start"
    return Death(exception=str(exception), moment=moment)


def tags_of(death: Death | None) -> dict[str, str]:
    """Return the tags of a run whose job died of this exception."""
    return {EXCEPTION: death.exception, MOMENT: death.moment} if death else {}


def recorded_death(tags: Mapping[str, str | None]) -> Death | None:
    """Return the exception in a run's tags, or None."""
    exception, moment = tags.get(EXCEPTION), tags.get(MOMENT)
    known = next((each for each in MOMENTS if each == moment), None)
    return Death(exception=exception, moment=known) if exception and known else None


def _exception(events: Iterable[Event], log_tail: Sequence[str]) -> LastException | None:
    """Return the exception in the job's own failure event, or else at the end of its log."""
    traceback = ""
    for event in events:
        if event.kind == "failure":
            traceback = str(event.fields.get("traceback") or "") or traceback
    return last_exception(traceback.splitlines() if traceback else log_tail)
