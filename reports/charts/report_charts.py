"""Charts of comparisons and probes."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from reports.charts.bars import bars, intervals, projections
from reports.charts.curves import loss_curves
from reports.charts.phases import phases
from reports.comparison.arms import STEADY
from reports.comparison.comparison import Comparison
from reports.comparison.equal_work import BILLABLE, DOLLARS
from reports.model.blocks import Chart
from reports.probe.projections import Probes

BY_SAMPLES = ("samples", "loss_by_samples", "Training loss by samples seen and epochs", "samples seen")
BY_SECONDS = ("billable_seconds", "loss_by_billable_seconds", "Training loss by billable time", "billable seconds")


def comparison_charts(comparison: Comparison, curves: Mapping[str, pd.DataFrame]) -> list[Chart]:
    """Return the charts that have numbers to show; `curves` are `histories` tables of `loss` by run id."""
    charts = (
        intervals(comparison),
        bars(comparison, BILLABLE, "billable", "Billable time", "billable instance seconds per job"),
        bars(comparison, DOLLARS.column, "cost", "Billable cost", "USD per job"),
        bars(comparison, "train_runtime", "training", "Training time", "seconds in the training loop per job"),
        bars(comparison, STEADY, "throughput", "Steady throughput", "samples per second after warm-up"),
        phases(comparison),
        loss_curves(comparison, curves, *BY_SAMPLES),
        loss_curves(comparison, curves, *BY_SECONDS),
    )
    return [chart for chart in charts if chart]


def training_charts(comparison: Comparison, curves: Mapping[str, pd.DataFrame]) -> list[Chart]:
    """Return the charts of one training that have numbers to show."""
    charts = (
        phases(comparison),
        loss_curves(comparison, curves, *BY_SAMPLES),
        loss_curves(comparison, curves, *BY_SECONDS),
    )
    return [chart for chart in charts if chart]


def probe_charts(probes: Probes, comparison: Comparison, curves: Mapping[str, pd.DataFrame]) -> list[Chart]:
    """Return the charts of a group of probes that have numbers to show."""
    charts = (
        projections(probes, comparison),
        bars(comparison, STEADY, "throughput", "Steady throughput", "samples per second after warm-up"),
        loss_curves(comparison, curves, *BY_SAMPLES),
        phases(comparison),
    )
    return [chart for chart in charts if chart]
