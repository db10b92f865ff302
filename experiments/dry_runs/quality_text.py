"""Measure of quality of a planned comparison, in words. Pure."""

from __future__ import annotations

from experiments.schema.compare_fields import METRICS_OF_TASKS
from experiments.schema.experiment import Experiment
from experiments.schema.script_fields import declared_scales
from judging.measures import choose_measure
from judging.quality import Measure

FROM_LOG = (
    "the first metric in the script's log whose unit and direction are known, such as eval_accuracy. To choose one, "
    "declare both in script.metrics, for example {f1: {unit: fraction, better: higher}}"
)
ANY_VALUE = (0.5,)
"""Values of a metric that the jobs will report. The measure of our own jobs does not depend on them."""


def quality_text(experiment: Experiment, margin: float | None) -> str:
    """Return the metric by which the arms' quality is judged, and the loss that is accepted.

    `margin` is that of the experiment, in the metric's unit; None takes the metric's own.
    """
    scales = declared_scales(experiment.script.metrics) if experiment.script else {}
    reported = scales if experiment.script else METRICS_OF_TASKS[experiment.task]

    def values(column: str) -> tuple[float, ...]:
        return ANY_VALUE if column in reported else ()

    def none(_: str) -> tuple[float, ...]:
        return ()

    measure = choose_measure(none, values, scales) if experiment.script else choose_measure(values, none, scales)
    if measure is None:
        return FROM_LOG
    if not measure.has_unit and margin is None:
        return f"{measure.label}, but its unit is not declared: add unit: fraction, percent or number to script.metrics"
    return f"{measure.label}; a cheaper arm may be worse by at most {_margin(measure, margin)}"


def _margin(measure: Measure, margin: float | None) -> str:
    if margin is not None:
        return f"{margin:g} (compare.quality_margin)"
    if measure.is_relative:
        return f"{100 * measure.margin:g} % of the baseline's value"
    return f"{measure.margin:g}"
