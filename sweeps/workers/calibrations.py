"""Read the results of a calibration job from its run."""

from __future__ import annotations

import math

from sweeps.cost_model.costs import CostModel, Measurement, cost_model
from tracking.queries.metric_histories import histories
from tracking.recording.recorder import JobRun
from tracking.server.store import Store
from training.contract.price import instance_seconds

PREFIX = "calibration/"
FIGURES = ("fits", "step_seconds", "step_seconds_low", "step_seconds_high", "samples_per_second", "peak_memory_gib")


def measurements(store: Store, run: JobRun) -> list[Measurement]:
    """Return the measurements of all batch sizes, ascending. In these metrics, the step is the batch size."""
    keys = [PREFIX + name for name in FIGURES]
    table = store.call(histories, store.client, {run.id: 0.0}, keys)[run.id]
    by_size: dict[int, dict[str, float]] = {}
    for step, key, value in zip(table["step"], table["key"], table["value"], strict=True):
        by_size.setdefault(int(step), {})[str(key).removeprefix(PREFIX)] = float(value)
    return [_measurement(size, figures) for size, figures in sorted(by_size.items())]


def calibrated_costs(store: Store, run: JobRun, *, instance_count: int) -> CostModel:
    """Return the cost model of a calibration. Raises ValueError if no batch size fits in memory."""
    seconds = instance_seconds(run.metrics.get("cost/billable_seconds", 0.0), instance_count)
    return cost_model(measurements(store, run), calibration_seconds=seconds)


def _measurement(size: int, figures: dict[str, float]) -> Measurement:
    return Measurement(
        batch_size=size,
        fits=bool(figures.get("fits")),
        step_seconds=figures.get("step_seconds", math.nan),
        low=figures.get("step_seconds_low", math.nan),
        high=figures.get("step_seconds_high", math.nan),
        samples_per_second=figures.get("samples_per_second", math.nan),
        peak_memory_gib=figures.get("peak_memory_gib", math.nan),
    )
