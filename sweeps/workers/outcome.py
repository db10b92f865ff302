"""Convert the outcome of a job to the state, values and attributes of its trial. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from optuna.trial import TrialState

from sweeps.space.objective import CurvePoint, Objective, TrialOutcome, values_of


def trial_result(
    objective: Objective, outcome: TrialOutcome, pruning: str | None
) -> tuple[TrialState, list[float] | None, str]:
    """Return the trial's state, its values and its `end`; `pruning` is the reason why the sweep stopped the job.

    A job that completed although it was stopped counts as completed.
    """
    if outcome.failure:
        if outcome.failure[0] == "Stopped" and pruning:
            return TrialState.PRUNED, None, f"pruned: {pruning}"
        return TrialState.FAIL, None, f"failed: {outcome.failure[0]}"
    if values := values_of(objective, outcome):
        return TrialState.COMPLETE, values, "completed"
    if objective.target is not None and not outcome.reached:
        return TrialState.PRUNED, None, "not reached"
    return TrialState.FAIL, None, "failed: NoValue"


def attributes(outcome: TrialOutcome) -> dict[str, Any]:
    """Return the attributes of a trial whose job has ended; unknown values are left out."""
    values_by_name = {
        "billable_seconds": outcome.billable_instance_seconds,
        "usd": outcome.usd,
        "samples": outcome.samples,
        "quality": outcome.quality,
        "reached": outcome.reached,
        "steady_samples_per_second": outcome.steady_samples_per_second,
        "run_id": outcome.run_id,
        "exception": outcome.death.exception if outcome.death else None,
        "exception_moment": outcome.death.moment if outcome.death else None,
        "reason": outcome.failure[1][:1000] if outcome.failure else None,
    }
    # Neither the database nor a browser accepts NaN.
    return {name: value for name, value in values_by_name.items() if value is not None and not _is_not_finite(value)}


def seconds_of(curve: Iterable[CurvePoint]) -> str:
    """Return the billable instance seconds at each point of a curve, by samples, as JSON."""
    return json.dumps({str(point.samples): round(point.billable_instance_seconds, 3) for point in curve})


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
