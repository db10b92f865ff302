"""Drop events and metric points that were already recorded.

A log can contain an event twice, because the log agent sends lines again if their arrival is not confirmed. A job that
resumes from a checkpoint also repeats the steps after the checkpoint. The repeated points have new times, so MLflow
would keep them beside the first ones and could not remove them. The first occurrence is kept. Every event of a step
also states its epoch and samples, which are recorded once for each step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Set

from mlflow.entities import Metric

from tracking.recording import metric_points
from training.contract.events import Event

PROGRESS = ("epoch", "samples")
"""Metrics that events state in addition to their values."""
_RECENT_EVENTS = 20_000
"""Events in which a repeated one is looked for: more than a log agent sends at once."""


class Deduplicator:
    """Filter for the events of one job, which must be passed in order."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, float]] = deque()
        self._recorded: set[tuple[int, float]] = set()
        """The recent events, by number and time."""
        self._last_steps: dict[str, int] = {}
        """Last step of each metric."""
        self._last_steps_before_start: dict[str, int] = {}
        """Last step of each metric at the latest start of the job."""
        self._last_progress: dict[str, tuple[int, float]] = {}
        """Step and value of the last point of each metric in `PROGRESS`."""

    @property
    def curves(self) -> Set[str]:
        """Metrics that have points."""
        return self._last_steps.keys()

    def new_events(self, events: Iterable[Event]) -> list[Event]:
        """Return the events that are not among the recent ones. Number and time together identify an event."""
        new = []
        for event in events:
            key = (event.seq, event.time)
            if key not in self._recorded:
                self._remember(key)
                new.append(event)
        return new

    def _remember(self, key: tuple[int, float]) -> None:
        self._recorded.add(key)
        self._recent.append(key)
        if len(self._recent) > _RECENT_EVENTS:
            self._recorded.remove(self._recent.popleft())

    def new_points(self, event: Event) -> list[Metric]:
        """Return the metric points of a new event, without steps that were recorded before the job restarted."""
        if event.kind == "start":
            self._last_steps_before_start = dict(self._last_steps)
        if event.kind != "metric":
            return []
        points = [point for point in metric_points.metric_points(event) if self._is_new(point)]
        self._last_steps |= {point.key: point.step for point in points}
        self._last_progress |= {point.key: (point.step, point.value) for point in points if point.key in PROGRESS}
        return points

    def _is_new(self, point: Metric) -> bool:
        if point.step <= self._last_steps_before_start.get(point.key, -1):
            return False
        return self._last_progress.get(point.key) != (point.step, point.value)
