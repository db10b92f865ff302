"""Metadata of a sweep, as its parent run stores it for reports."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from experiments.schema.sweep_fields import compiler_fields
from experiments.sweeping.sweep_plan import SweepPlan
from sweeps.space.grid import Point
from sweeps.space.objective import Objective
from sweeps.study.importance import importances
from sweeps.workers.decisions import Decisions
from sweeps.workers.trial_queue import Part

BestPoints = Mapping[str, tuple[Point, float]]
"""Best point of each compiler, with its cost."""


def metadata(
    sweep: SweepPlan,
    parts: Sequence[Part],
    samples: int,
    command: Sequence[str],
    *,
    best_points: BestPoints = MappingProxyType({}),
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the metadata of a running or ended sweep; `command` is the command line that trains the experiment."""
    compiler, base = sweep.baseline
    return {
        "objective": _objective(parts[0].objective),
        "batch_sizes": sweep.space.batch_sizes,
        "multipliers": sweep.space.multipliers,
        "compilers": [part.compiler for part in parts],
        "base": {"compiler": compiler, "batch_size": base.batch_size, "multiplier": base.multiplier},
        "samples": samples,
        "models": {part.compiler: asdict(model.line) for part in parts if (model := decisions(part).search.costs)},
        "importances": {part.compiler: importances(part.study) for part in parts},
        "stopped_because": dict(reasons),
        "train_command": _train_command(sweep, best_points, command),
    }


def decisions(part: Part) -> Decisions:
    """Return the study's strategy, which `sweep_worker` always creates as `Decisions`."""
    assert isinstance(part.strategy, Decisions)
    return part.strategy


def _objective(objective: Objective) -> dict[str, Any]:
    quality = objective.quality
    return {
        "cost": objective.cost,
        "metric": quality.metric if quality else None,
        "higher_is_better": quality.higher_is_better if quality else None,
        "target": objective.target,
        "bound": objective.bound,
        "is_front": objective.is_front,
    }


def _train_command(sweep: SweepPlan, best_points: BestPoints, command: Sequence[str]) -> str | None:
    if not best_points:
        return None
    sign = -1.0 if sweep.maximises else 1.0
    compiler = min(best_points, key=lambda each: sign * best_points[each][1])
    point = best_points[compiler][0]
    own = {
        **compiler_fields(compiler),
        "batch_size": point.batch_size,
        "learning_rate_multiplier": f"{point.multiplier:.6g}",
    }
    return shlex.join([*command, *(word for name, value in own.items() for word in ("-P", f"{name}={value}"))])
