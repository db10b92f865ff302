"""Jobs that have ended, as the tracking server records them."""

from __future__ import annotations

from collections.abc import Mapping

from tracking.groups.planned_job import PlannedJob
from tracking.recorded.recorded_job import Job


def ended_job(planned: PlannedJob, text: Mapping[str, str], numbers: Mapping[str, float]) -> Job:
    """Return a successful job with the planned hyperparameters. `text` and `numbers` are further columns."""
    columns = {f"hp_{name}": str(value) for name, value in planned.spec.hyperparameters.items()}
    return Job(
        run_id="r",
        experiment_id="1",
        name="j",
        status="FINISHED",
        arm="none",
        is_baseline=True,
        repeat="0",
        cache_state="off",
        text={**columns, "compiler": "none", "data_key": planned.data_key, **text},
        numbers=dict(numbers),
    )
