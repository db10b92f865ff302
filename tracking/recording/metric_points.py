"""Convert events to MLflow points, each once. Pure: the same log always gives the same points.

Points carry the job's own clock. Reading a log again yields identical points, which MLflow stores once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType
from typing import Any

from mlflow.entities import Metric, Param

from training.contract.events import Event


def metric_points(event: Event) -> list[Metric]:
    """Return the points of a `metric` event: its values, the epoch and the sample count, all at its step."""
    step, at_ms = int(event.fields["step"]), _milliseconds(event.time)
    values = {
        **event.fields.get("values", {}),
        "epoch": event.fields.get("epoch"),
        "samples": event.fields.get("samples"),
    }
    return [Metric(name, float(value), at_ms, step) for name, value in values.items() if _is_number(value)]


def final_points(
    values: Mapping[str, Any], at_seconds: float, step: int = 0, curves: Set[str] = frozenset()
) -> list[Metric]:
    """Return one point for each number of `values`, at the given time in seconds since the epoch.

    Metrics in `curves` already have points and get their last one at `step`. All others get step 0, for which MLflow's
    charts draw a bar per job instead of a line through a single point.
    """
    at_ms = _milliseconds(at_seconds)
    steps = {name: step if name in curves else 0 for name in values}
    return [Metric(name, float(v), at_ms, steps[name]) for name, v in values.items() if _is_number(v)]


FEATURES = {
    "probe_": "probe_precision",
    "calibration_": "calibration_batch_sizes",
    "target_": "target_metric",
}
"""Prefix of a feature's hyperparameters -> the hyperparameter that turns the feature on."""


MACHINE_FIELDS = ("instance_type", "instance_count", "devices")
"""Fields of `machine` that are parameters of every run."""
OTHER_NAMES = {"model_type": "model"}
"""Field of an experiment -> the hyperparameter of the job that contains it."""


def hyperparameters(event: Event, settings: Mapping[str, str] = MappingProxyType({})) -> list[Param]:
    """Return the `hp.*` and `job.*` parameters of a `start` event, without those that have no effect.

    Empty values and the parameters of a feature that is off have no effect. The event itself, in the run's artifact
    `events.jsonl`, contains all of them.

    `settings` are the values of the fields that any arm sets, by dotted name. Each becomes a parameter, too: `hp.NAME`
    if the job has a hyperparameter of this name, else the field's own name. Those of `MACHINE_FIELDS` are left out.
    """
    values = event.fields.get("hyperparameters", {})
    effective = {f"hp.{name}": value for name, value in values.items() if _has_effect(name, values)}
    model = {f"job.model_{name}": value for name, value in event.fields.get("model", {}).items()}
    params = {**effective, **model, "job.threads": event.fields.get("threads")}
    for field, text in settings.items():
        if field.removeprefix("machine.") not in MACHINE_FIELDS:
            params.setdefault(_parameter(field, values), text)
    return [Param(name, str(value)) for name, value in params.items() if value is not None]


def _parameter(field: str, hyperparameters: Mapping[str, Any]) -> str:
    """Return the name of the parameter that holds a field of an experiment."""
    own = field.removeprefix("script.hyperparameters.")
    name = own if own != field else OTHER_NAMES.get(field, field.replace(".", "_"))
    return f"hp.{name}" if own != field or name in hyperparameters else field


def _has_effect(name: str, values: Mapping[str, Any]) -> bool:
    if values[name] in (None, "", [], -1):
        return False
    if name.startswith("save_t") or name == "save_steps":
        return values.get("save_strategy") != "none"
    return all(bool(values.get(switch)) for prefix, switch in FEATURES.items() if name.startswith(prefix))


def phase_totals(events: Iterable[Event]) -> dict[str, float]:
    """Return `time/<phase>_seconds`, summed over `phase` events. A job's result, if any, replaces these sums."""
    totals: dict[str, float] = {}
    for event in events:
        if event.kind == "phase" and _is_number(event.fields.get("seconds")):
            name = f"time/{event.fields['phase']}_seconds"
            totals[name] = totals.get(name, 0.0) + float(event.fields["seconds"])
    return totals


def seconds_per_checkpoint(events: Iterable[Event]) -> dict[str, float]:
    """Return `time/seconds_per_checkpoint`, the mean time of a checkpoint; empty if none was written."""
    phases = [event.fields for event in events if event.kind == "phase" and event.fields.get("phase") == "checkpoint"]
    seconds = [float(fields["seconds"]) for fields in phases if _is_number(fields.get("seconds"))]
    return {"time/seconds_per_checkpoint": math.fsum(seconds) / len(seconds)} if seconds else {}


def last_samples(events: Iterable[Event]) -> float | None:
    """Return the latest sample count; None if no event has one."""
    count = None
    for event in events:
        if event.kind == "metric":
            count = event.fields.get("samples", count)
    return count


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _milliseconds(seconds: float) -> int:
    return math.floor(seconds * 1000)


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
        points = [point for point in metric_points(event) if self._is_new(point)]
        self._last_steps |= {point.key: point.step for point in points}
        self._last_progress |= {point.key: (point.step, point.value) for point in points if point.key in PROGRESS}
        return points

    def _is_new(self, point: Metric) -> bool:
        if point.step <= self._last_steps_before_start.get(point.key, -1):
            return False
        return self._last_progress.get(point.key) != (point.step, point.value)
