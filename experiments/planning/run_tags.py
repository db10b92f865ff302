"""Tags of a job's run with what its report needs from the experiment: a report reads only the tracking server."""

from __future__ import annotations

import json

from experiments.schema.experiment import Experiment
from experiments.schema.script_metric_fields import declared_scales
from tracking.groups.metric_scales import METRIC_SCALES, write_scales


def run_tags(experiment: Experiment) -> dict[str, str]:
    """Return the published figures, and the declared units and directions of a script's metrics."""
    tags: dict[str, str] = {}
    if published := experiment.published:
        fields = {"source": published.source, "machine": published.machine, "figures": published.figures}
        tags["platform.published"] = json.dumps(fields)
    if experiment.script and (scales := declared_scales(experiment.script.metrics)):
        tags[METRIC_SCALES] = write_scales(scales)
    return tags
