"""Drop events and metric points that were already recorded.

A log can contain an event twice, because the log agent sends lines again if their arrival is not confirmed. A job that
resumes from a checkpoint also repeats the steps after the checkpoint. The repeated points have new times, so MLflow
would keep them beside the first ones and could not remove them. The first occurrence is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from mlflow.entities import Metric

from tracking.recording import metric_points
from training.contract.events import Event


class Deduplicator:
    """Filter for the events of one job, which must be passed in order."""

    def __init__(self) -> None:
        self._recorded: set[tuple[int, float]] = set()
        self._last_steps: dict[str, int] = {}
        """Last step of each metric."""
        self._last_steps_before_start: dict[str, int] = {}
        """Last step of each metric at the latest start of the job."""

    @property
    def curves(self) -> Set[str]:
        """Metrics that have points."""
        return self._last_steps.keys()

    def new_events(self, events: Iterable[Event]) -> list[Event]:
        """Return the events that were not passed before. An event's number and time together identify it."""
        new = []
        for event in events:
            if (event.seq, event.time) not in self._recorded:
                self._recorded.add((event.seq, event.time))
                new.append(event)
        return new

    def new_points(self, event: Event) -> list[Metric]:
        """Return the metric points of a new event, without steps that were recorded before the job restarted."""
        if event.kind == "start":
            self._last_steps_before_start = dict(self._last_steps)
        if event.kind != "metric":
            return []
        before = self._last_steps_before_start
        points = [point for point in metric_points.metric_points(event) if point.step > before.get(point.key, -1)]
        self._last_steps |= {point.key: point.step for point in points}
        return points
