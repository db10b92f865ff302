"""What a job says more than once, told once.

A log may hold an event twice, for its agent stores lines again when it does not hear that they have arrived. And a job
that goes on from a checkpoint makes the steps after it a second time: their points have other times and would stand
beside the first ones, which MLflow cannot take back. The first telling stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from mlflow.entities import Metric

from tracking.recording import metric_points
from training.contract.events import Event


class Once:
    """Is given the events of one job in their order."""

    def __init__(self) -> None:
        self._heard: set[tuple[int, float]] = set()
        self._told: dict[str, int] = {}
        """Last step of each metric."""
        self._told_before: dict[str, int] = {}
        """The same at the job's newest start."""

    @property
    def curves(self) -> Set[str]:
        """Metrics that have points."""
        return self._told.keys()

    def fresh(self, events: Iterable[Event]) -> list[Event]:
        """Return the events that were not given before; no two of a job have number and time in common."""
        found = []
        for event in events:
            if (event.seq, event.time) not in self._heard:
                self._heard.add((event.seq, event.time))
                found.append(event)
        return found

    def points(self, event: Event) -> list[Metric]:
        """Return the points of a fresh event, without those of steps that an earlier start told of."""
        if event.kind == "start":
            self._told_before = dict(self._told)
        if event.kind != "metric":
            return []
        found = [each for each in metric_points.metric_points(event) if each.step > self._told_before.get(each.key, -1)]
        self._told |= {each.key: each.step for each in found}
        return found
