"""The charts of a comparison."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from tracking.report.bars import bars, intervals, phases
from tracking.report.canvas import Plot
from tracking.report.comparison import STEADY, Comparison
from tracking.report.curves import loss_curves
from tracking.report.verdict import PAID


def plots_of(comparison: Comparison, curves: Mapping[str, pd.DataFrame]) -> list[Plot]:
    """Return the charts that there are numbers for; `curves` are `query.history` tables of `loss` by run id."""
    by_samples = ("samples", "loss_by_samples", "Training loss by samples seen", "samples seen")
    by_seconds = ("billable_seconds", "loss_by_billable_seconds", "Training loss by billable time", "billable seconds")
    charts = (
        intervals(comparison),
        bars(comparison, PAID, "billable", "Billable time", "billable instance seconds per job"),
        bars(comparison, "train_runtime", "training", "Training time", "seconds in the training loop per job"),
        bars(comparison, STEADY, "throughput", "Steady throughput", "samples per second after warm-up"),
        phases(comparison),
        loss_curves(comparison, curves, *by_samples),
        loss_curves(comparison, curves, *by_seconds),
    )
    return [chart for chart in charts if chart]
