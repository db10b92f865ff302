"""Measures of quality that our own jobs log, from the metrics of the tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from judging.quality import Measure, Unit
from training.job.tasks import LOSS, METRICS

EVALUATIONS: Mapping[str, Measure] = {
    metric.name: Measure(metric.name, metric.label, cast(Unit, metric.unit), metric.higher_is_better)
    for metric in METRICS
}
"""Measures on rows that were not used in training, by metric name. The preferred measure comes first."""
MEASURES = (
    *(EVALUATIONS[metric.name] for metric in METRICS[: METRICS.index(LOSS) + 1]),
    Measure("train_loss", "training loss", "number", higher_is_better=False),
)
"""Measures of comparisons, in order of preference: the first one that any of its jobs has."""
