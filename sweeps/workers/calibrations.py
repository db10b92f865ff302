"""What a calibration job has told, read back from its run."""

from __future__ import annotations

import math

from sweeps.cost_model.costs import CostModel, Measured, cost_model
from tracking.queries import job_tables
from tracking.recording.job_run import JobRun
from tracking.server.store import Store
from training.contract.price import instance_seconds

PREFIX = "calibration/"
FIGURES = ("fits", "step_seconds", "step_seconds_low", "step_seconds_high", "samples_per_second", "peak_memory_gib")


def measured(store: Store, run: JobRun) -> list[Measured]:
    """Return what was measured at each batch size, ascending; the run's metrics have the batch size as their step."""
    table = store.call(job_tables.history, store.client, run.opened.id, [PREFIX + name for name in FIGURES], 0.0)
    by_size: dict[int, dict[str, float]] = {}
    for step, key, value in zip(table["step"], table["key"], table["value"], strict=True):
        by_size.setdefault(int(step), {})[str(key).removeprefix(PREFIX)] = float(value)
    return [_measured(size, figures) for size, figures in sorted(by_size.items())]


def costs(store: Store, run: JobRun, *, samples_between_evaluations: float, instance_count: int) -> CostModel:
    """Return what trainings cost by the calibration. Raises ValueError with one sentence where no batch size fits."""
    billable_seconds = run.metrics.get("cost/billable_seconds", 0.0)
    beside_steps = max(billable_seconds - run.metrics.get("calibration/seconds", 0.0), 0.0)
    return cost_model(
        measured(store, run),
        fixed_seconds=instance_seconds(beside_steps, instance_count),
        evaluation_seconds=run.metrics.get("calibration/eval_seconds", 0.0),
        samples_between_evaluations=samples_between_evaluations,
        instance_count=instance_count,
        calibration_seconds=instance_seconds(billable_seconds, instance_count),
    )


def _measured(size: int, figures: dict[str, float]) -> Measured:
    return Measured(
        batch_size=size,
        fits=bool(figures.get("fits")),
        step_seconds=figures.get("step_seconds", math.nan),
        low=figures.get("step_seconds_low", math.nan),
        high=figures.get("step_seconds_high", math.nan),
        samples_per_second=figures.get("samples_per_second", math.nan),
        peak_memory_gib=figures.get("peak_memory_gib", math.nan),
    )
