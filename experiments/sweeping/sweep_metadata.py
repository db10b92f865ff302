"""Metadata of a sweep, as its parent run stores it for reports."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from experiments.planning.arms import variant
from experiments.planning.load import with_absolute_paths
from experiments.schema.yaml_document import as_yaml
from experiments.sweeping.sweep_plan import SweepPlan
from sweeps.space.grid import Point
from sweeps.space.objective import Objective
from sweeps.study.study import importances
from sweeps.workers.trial_queue import Part

BestPoints = Mapping[str, tuple[Point, float]]
"""Best point of each compiler, with its cost."""
SETTING = ("compiler", "batch_size", "learning_rate_multiplier")
"""Fields that a command to train a setting always has. It has others if they differ from the experiment's."""


def metadata(
    sweep: SweepPlan,
    parts: Sequence[Part],
    samples: int,
    overrides: Mapping[str, str],
    *,
    best_points: BestPoints = MappingProxyType({}),
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the metadata of a running or ended sweep.

    `overrides` has the experiment, as the user named it, and the overrides of the command that apply to a training.
    """
    setting = winner(sweep, best_points)
    compiler, base = sweep.baseline
    return {
        "objective": _objective(parts[0].search.objective),
        "batch_sizes": sweep.space.batch_sizes,
        "multipliers": sweep.space.multipliers,
        "compilers": [part.compiler for part in parts],
        "base": {"compiler": compiler, "batch_size": base.batch_size, "multiplier": base.multiplier},
        "samples": samples,
        "models": {part.compiler: asdict(model.line) for part in parts if (model := part.search.costs)},
        "importances": {part.compiler: importances(part.study) for part in parts},
        "stopped_because": dict(reasons),
        "train_command": train_command(overrides, setting) if setting else None,
    }


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


def winner(sweep: SweepPlan, best_points: BestPoints) -> dict[str, Any]:
    """Return the fields that train the winner; empty if no trial completed."""
    if not best_points:
        return {}
    sign = -1.0 if sweep.maximises else 1.0
    compiler = min(best_points, key=lambda each: sign * best_points[each][1])
    fields = sweep.setting(compiler, best_points[compiler][0])
    return {
        name: value for name, value in fields.items() if name in SETTING or value != getattr(sweep.experiment, name)
    }


def train_command(overrides: Mapping[str, str], setting: Mapping[str, Any]) -> str:
    """Return the command that trains a setting in the folder in which the sweep was started."""
    own = {name: value if isinstance(value, str) else json.dumps(value) for name, value in setting.items()}
    words = (word for name, text in {**overrides, **own}.items() for word in (f"--{name}", text))
    return shlex.join(["trainfare", "train", *words])


def winner_file(sweep: SweepPlan, setting: Mapping[str, Any]) -> str:
    """Return the sweep's experiment with a setting, as an experiment file for any folder."""
    experiment = variant(sweep.experiment, setting, "the winner")
    return as_yaml(with_absolute_paths(experiment.model_dump(mode="json", exclude_unset=True)))
