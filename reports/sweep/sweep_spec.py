"""What a sweep was asked for, and what only it can tell: its `sweep.json`, of which any part may be missing. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from judging.step_time import StepTime


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A sweep's question; NaN, None or empty where nothing tells."""

    cost: str = "billable_seconds"
    """What is made small: `billable_seconds`, `usd`; or large: `steady_samples_per_second`."""
    metric: str | None = None
    """The quality's metric, such as `eval_loss`."""
    higher_is_better: bool = False
    target: float | None = None
    """Value of the quality to reach."""
    bound: float | None = None
    """Worst value of the quality that is let pass."""
    is_front: bool = False
    """Whether the quality is an objective of its own."""
    batch_sizes: tuple[float, ...] = ()
    """Of each device, samples."""
    multipliers: tuple[float, ...] = (1.0,)
    """Factors on the learning rate that the scaling rule gives."""
    compilers: tuple[str, ...] = ()
    base_compiler: str | None = None
    base_batch_size: float = math.nan
    base_multiplier: float = 1.0
    samples: float = math.nan
    """That the whole training sees."""
    models: Mapping[str, StepTime] = field(default_factory=dict)
    """By compiler."""
    importances: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Share of the differences in cost that batch size and learning rate make, by compiler."""
    stopped_because: Mapping[str, str] = field(default_factory=dict)
    """A sentence for each compiler."""
    train_command: str | None = None
    """Trains the winner."""

    @property
    def is_rate(self) -> bool:
        """Whether more of the objective is better: samples a second."""
        return self.cost == "steady_samples_per_second"

    @property
    def points(self) -> int:
        """How many settings the whole grid has."""
        return len(self.compilers) * len(self.batch_sizes) * len(self.multipliers)


def asked_of(told: Mapping[str, Any]) -> Asked:
    """Return what a `sweep.json` tells; what it lacks, or has in another form, is missing."""
    objective, base = _mapping(told.get("objective")), _mapping(told.get("base"))
    models = {name: model for name, each in _mapping(told.get("models")).items() if (model := _model(_mapping(each)))}
    shares = {name: _numbers_of(_mapping(each)) for name, each in _mapping(told.get("importances")).items()}
    return Asked(
        cost=_text(objective.get("cost")) or "billable_seconds",
        metric=_text(objective.get("metric")),
        higher_is_better=objective.get("higher_is_better") is True,
        target=_number(objective.get("target")),
        bound=_number(objective.get("bound")),
        is_front=objective.get("is_front") is True,
        batch_sizes=_numbers(told.get("batch_sizes")),
        multipliers=_numbers(told.get("multipliers")) or (1.0,),
        compilers=tuple(filter(None, map(_text, _list(told.get("compilers"))))),
        base_compiler=_text(base.get("compiler")),
        base_batch_size=_or_nan(base.get("batch_size")),
        base_multiplier=_number(base.get("multiplier")) or 1.0,
        samples=_or_nan(told.get("samples")),
        models=models,
        importances={name: each for name, each in shares.items() if each},
        stopped_because={
            name: text for name, each in _mapping(told.get("stopped_because")).items() if (text := _text(each))
        },
        train_command=_text(told.get("train_command")),
    )


def _model(told: Mapping[str, Any]) -> StepTime | None:
    names = ("step_seconds_fixed", "step_seconds_per_sample", "relative_error")
    fixed, per_sample, error = (_or_nan(told.get(name)) for name in names)
    found = StepTime(step_seconds_fixed=fixed, step_seconds_per_sample=per_sample, relative_error=error)
    return found if found.step_seconds(1) > 0 else None


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
    found = _number(value)
    return math.nan if found is None else found


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(sorted({found for each in _list(value) if (found := _number(each)) is not None and found > 0}))


def _numbers_of(value: Mapping[str, Any]) -> dict[str, float]:
    return {name: found for name, each in value.items() if (found := _number(each)) is not None and found >= 0}
