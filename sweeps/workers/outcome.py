"""What a trial is told when its job has ended. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from optuna.trial import TrialState

from sweeps.space.objective import CurvePoint, Ended, Objective, values_of


def verdict(objective: Objective, ended: Ended, pruning: str | None) -> tuple[TrialState, list[float] | None, str]:
    """Return the trial's state, its values and its `end`; `pruning` is why the sweep had asked the job to stop.

    A job that completed in spite of that counts as what it is.
    """
    if ended.failure:
        if ended.failure[0] == "Stopped" and pruning:
            return TrialState.PRUNED, None, f"pruned: {pruning}"
        return TrialState.FAIL, None, f"failed: {ended.failure[0]}"
    if values := values_of(objective, ended):
        return TrialState.COMPLETE, values, "completed"
    if objective.target is not None and not ended.reached:
        return TrialState.PRUNED, None, "not reached"
    return TrialState.FAIL, None, "failed: NoValue"


def attributes(ended: Ended) -> dict[str, Any]:
    """Return what is kept of a job that has ended; what is not known is left out."""
    found = {
        "billable_seconds": ended.billable_instance_seconds,
        "usd": ended.usd,
        "samples": ended.samples,
        "quality": ended.quality,
        "reached": ended.reached,
        "steady_samples_per_second": ended.steady_samples_per_second,
        "run_id": ended.run_id,
        "reason": ended.failure[1][:1000] if ended.failure else None,
    }
    # A database and a browser take no NaN.
    return {name: value for name, value in found.items() if value is not None and not _is_lost(value)}


def seconds_of(curve: Iterable[CurvePoint]) -> str:
    """Return the billable instance seconds of a curve's points by samples, as JSON."""
    return json.dumps({str(point.samples): round(point.billable_instance_seconds, 3) for point in curve})


def _is_lost(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
