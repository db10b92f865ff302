"""A sweep's specification and search state, as read from `sweep.json`, where any part may be missing. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from judging.step_time import StepTime


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """Objective, search space and fitted models of a sweep; unknown values are NaN, None or empty."""

    cost: str = "billable_seconds"
    """`billable_seconds` or `usd`, which are minimized, or `steady_samples_per_second`, which is maximized."""
    metric: str | None = None
    """Metric that measures the quality, such as `eval_loss`."""
    higher_is_better: bool = False
    target: float | None = None
    """Quality to reach."""
    bound: float | None = None
    """Worst acceptable quality."""
    is_front: bool = False
    """True if the quality is a second objective."""
    batch_sizes: tuple[float, ...] = ()
    """Samples per device."""
    multipliers: tuple[float, ...] = (1.0,)
    """Factors applied to the learning rate from the scaling rule."""
    compilers: tuple[str, ...] = ()
    base_compiler: str | None = None
    base_batch_size: float = math.nan
    base_multiplier: float = 1.0
    samples: float = math.nan
    """Samples of the whole training."""
    models: Mapping[str, StepTime] = field(default_factory=dict)
    """Fitted step times by compiler."""
    importances: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Shares of batch size and learning rate in the differences in cost, by compiler."""
    stopped_because: Mapping[str, str] = field(default_factory=dict)
    """Reason why the search ended, by compiler."""
    train_command: str | None = None
    """Command that trains the winner."""

    @property
    def is_rate(self) -> bool:
        """True if the objective is a rate (samples per second), where more is better."""
        return self.cost == "steady_samples_per_second"

    @property
    def points(self) -> int:
        """Number of settings in the whole grid."""
        return len(self.compilers) * len(self.batch_sizes) * len(self.multipliers)


def read_spec(document: Mapping[str, Any]) -> SweepSpec:
    """Return the specification in a `sweep.json`. Invalid parts are treated as missing."""
    objective, base = _mapping(document.get("objective")), _mapping(document.get("base"))
    models = {
        name: model for name, each in _mapping(document.get("models")).items() if (model := _model(_mapping(each)))
    }
    shares = {name: _numbers_of(_mapping(each)) for name, each in _mapping(document.get("importances")).items()}
    return SweepSpec(
        cost=_text(objective.get("cost")) or "billable_seconds",
        metric=_text(objective.get("metric")),
        higher_is_better=objective.get("higher_is_better") is True,
        target=_number(objective.get("target")),
        bound=_number(objective.get("bound")),
        is_front=objective.get("is_front") is True,
        batch_sizes=_numbers(document.get("batch_sizes")),
        multipliers=_numbers(document.get("multipliers")) or (1.0,),
        compilers=tuple(filter(None, map(_text, _list(document.get("compilers"))))),
        base_compiler=_text(base.get("compiler")),
        base_batch_size=_or_nan(base.get("batch_size")),
        base_multiplier=_number(base.get("multiplier")) or 1.0,
        samples=_or_nan(document.get("samples")),
        models=models,
        importances={name: each for name, each in shares.items() if each},
        stopped_because={
            name: text for name, each in _mapping(document.get("stopped_because")).items() if (text := _text(each))
        },
        train_command=_text(document.get("train_command")),
    )


def _model(document: Mapping[str, Any]) -> StepTime | None:
    names = ("step_seconds_fixed", "step_seconds_per_sample", "relative_error")
    fixed, per_sample, error = (_or_nan(document.get(name)) for name in names)
    model = StepTime(step_seconds_fixed=fixed, step_seconds_per_sample=per_sample, relative_error=error)
    return model if model.step_seconds(1) > 0 else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def _or_nan(value: Any) -> float:
    number = _number(value)
    return math.nan if number is None else number


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(sorted({number for each in _list(value) if (number := _number(each)) is not None and number > 0}))


def _numbers_of(value: Mapping[str, Any]) -> dict[str, float]:
    return {name: number for name, each in value.items() if (number := _number(each)) is not None and number >= 0}
