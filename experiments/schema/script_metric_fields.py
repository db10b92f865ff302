"""Fields of a script's metrics: how they are read from the log, and what their values mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from experiments.schema.quality_metrics import TARGET_METRICS
from training.contract.errors import InputError
from training.contract.job_spec import MetricDefinition
from training.contract.request import check_metric
from training.staging.sources.request import Frozen

PROGRESS = ("step", "epoch", "samples")
"""Names that give the position in the training."""


def _check_expression(value: Any) -> Any:
    try:
        check_metric(MetricDefinition(name="metric", regex=str(value)))
    except InputError as error:
        raise ValueError(str(error).removeprefix("Metric 'metric': ").rstrip(".")) from error
    return str(value)


Expression = Annotated[str, BeforeValidator(_check_expression)]


class ScriptMetric(Frozen):
    """One metric of a script."""

    pattern: Expression | None = None
    """Regular expression with one group that matches the number. None for a metric that the log shows by itself."""
    unit: Literal["fraction", "percent", "number"] | None = None
    """Unit of the values: `fraction` (0 to 1), `percent` (0 to 100) or `number` (any other). None means that the unit
    is taken from the values where they leave no doubt."""
    better: Literal["higher", "lower"] | None = None
    """Better direction of the values. None means that of the metrics that every task reports, such as eval_accuracy."""


def _from_text(value: Any) -> Any:
    """Return the short form, a regular expression alone, as a metric."""
    return value if isinstance(value, dict | ScriptMetric) else {"pattern": value}


MetricName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,249}$")]
"""Name without a slash: names with a slash are reserved for our own metrics."""
ScriptMetrics = dict[MetricName, Annotated[ScriptMetric, BeforeValidator(_from_text)]]


def check_metrics(metrics: Mapping[str, ScriptMetric]) -> None:
    """Raise ValueError for a metric without content, and for a unit or a direction that cannot be used."""
    for name, metric in metrics.items():
        if metric.pattern is None and metric.unit is None and metric.better is None:
            raise ValueError(f"script.metrics.{name} is empty: it needs a pattern, or a unit and a direction")
        if name in PROGRESS and (metric.unit or metric.better or not metric.pattern):
            raise ValueError(f"script.metrics.{name} gives the position in the training: it takes only a pattern")
        _check_direction(name, metric)


def _check_direction(name: str, metric: ScriptMetric) -> None:
    known = {"min": "lower", "max": "higher"}.get(str(TARGET_METRICS.get(name)))
    if known and metric.better and metric.better != known:
        raise ValueError(f"script.metrics.{name}: better is '{metric.better}', but {known} values of {name} are better")
    if metric.unit and not metric.better and not known:
        raise ValueError(
            f"script.metrics.{name} has the unit '{metric.unit}' but no direction: add better: higher or better: lower"
        )


def declared_scales(metrics: Mapping[str, ScriptMetric]) -> dict[str, dict[str, str]]:
    """Return the declared unit and direction of each metric that has either, in the order of the file."""
    declared = {
        name: metric.model_dump(include={"unit", "better"}, exclude_none=True) for name, metric in metrics.items()
    }
    return {name: each for name, each in declared.items() if each}
