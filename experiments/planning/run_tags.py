"""Tags of a job's run with what its report needs from the experiment: a report reads only the tracking server."""

from __future__ import annotations

import json

from experiments.schema.experiment import Experiment
from experiments.schema.script_metric_fields import declared_scales
from tracking.groups.plan_file import METRIC_SCALES, write_scales

SPOT_TERMS = ("interruptions_per_hour", "spot_discount_percent")
"""Fields of `machine` from which the cost on spot capacity is estimated. They have no effect on jobs."""


def run_tags(experiment: Experiment) -> dict[str, str]:
    """Return the terms of spot capacity, the published figures, and the scales of a script's metrics."""
    tags: dict[str, str] = {}
    if experiment.service == "sagemaker":
        terms = {name: getattr(experiment.machine, name) for name in SPOT_TERMS}
        tags |= {f"platform.{name}": f"{value:g}" for name, value in terms.items() if value is not None}
    if published := experiment.published:
        fields = {"source": published.source, "machine": published.machine, "figures": published.figures}
        tags["platform.published"] = json.dumps(fields)
    if experiment.script and (scales := declared_scales(experiment.script.metrics)):
        tags[METRIC_SCALES] = write_scales(scales)
    return tags
