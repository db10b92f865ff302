"""The studies of a sweep, one for each compiler: opened or continued, and what their trials have cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from sweeps.space.grid import Space
from sweeps.space.objective import Objective
from sweeps.study.lock import waiting
from sweeps.study.storage import Storage
from training.contract.errors import InputError

MOST_RETRIES = 20
"""A trial that outlived so many of its workers is what they die of."""

_LOCKED_SECONDS = 60.0

DUPLICATE = "duplicate"
"""`end` of a trial whose point another one has: it has no job."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What jobs have cost so far."""

    billable_instance_seconds: float = 0.0
    usd: float = 0.0
    """Of those with a price."""
    unpriced: tuple[str, ...] = ()
    """Names of jobs that have ended and whose price is not known."""


def open_study(
    storage: Storage,
    *,
    sweep: str,
    compiler: str,
    space: Space,
    objective: Objective,
    experiment: str,
    sampler: BaseSampler | None = None,
) -> optuna.Study:
    """Return the sweep's study of a compiler, made where there is none.

    `experiment` is the key of all that is trained. Raises `InputError` where a study of this name searches elsewhere,
    for something else, or trains something else.
    """
    name = f"{sweep}/{compiler}"
    asked = {"space": _plain(space), "objective": _plain(objective), "experiment": experiment, "compiler": compiler}

    def attempt() -> optuna.Study:
        with waiting(storage.lock, sweep, _LOCKED_SECONDS):
            study = optuna.create_study(
                storage=storage.rdb,
                study_name=name,
                directions=objective.directions,
                sampler=sampler,
                load_if_exists=True,
            )
            # Whoever created it may have died before these were all there.
            for key, value in asked.items():
                if key not in study.user_attrs:
                    study.set_user_attr(key, value)
            return study

    study = storage.patience.call(attempt)
    if told := _difference(storage.patience.call(lambda: study.user_attrs), asked):
        raise InputError(
            f"study {name} in {storage.patience.name} has another {told}: a study that is continued keeps these; "
            "another sweep needs another name"
        )
    return study


def _plain(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as a database gives them back."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return found


def _difference(there: Mapping[str, Any], asked: Mapping[str, Any], within: str = "") -> str:
    """Return the first field that differs, with both values; an empty string where none does."""
    for key, value in asked.items():
        before = there.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if told := _difference(before, value, f"{key}."):
                return told
        elif before != value:
            return f"{within}{key} ({before}, not {value})"
    return ""


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return Optuna's distributions of the parameters that `space.params` names."""
    low, high = space.params(space.points[0]), space.params(space.points[-1])
    found: dict[str, BaseDistribution] = {}
    for name, first in low.items():
        if name == "log2_multiplier":
            # A third of an octave is no exact number: the nearest point of the grid is found by `space.point`.
            step = 1 / space.per_octave if space.per_octave in (1, 2, 4, 8) else None
            found[name] = FloatDistribution(float(first), float(high[name]), step=step)
        else:
            found[name] = IntDistribution(int(first), int(high[name]), step=8 if name == "batch_size" else 1)
    return found


def retries(trial: FrozenTrial) -> list[int]:
    """Return the numbers of the trials that this one repeats: their workers died."""
    found: list[int] = trial.system_attrs.get("retry_history", [])
    return found


def lost(trials: Iterable[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials that were failed for want of their worker, and that no other one repeats yet."""
    trials = list(trials)
    repeated = {number for trial in trials for number in retries(trial)}
    return [
        trial
        for trial in trials
        if trial.state == TrialState.FAIL and trial.number not in repeated and not is_told(trial)
    ]


def is_told(trial: FrozenTrial) -> bool:
    """Tell whether a failed trial was told so; a worker may have died between its `end` and its state."""
    end = str(trial.user_attrs.get("end", ""))
    return end == DUPLICATE or end.startswith("failed")


def telling(trials: Iterable[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials that stand for a point: without duplicates, and without those that others repeat."""
    trials = list(trials)
    repeated = {number for trial in trials for number in retries(trial)}
    return [
        trial
        for trial in trials
        if trial.number not in repeated and trial.user_attrs.get("end") != DUPLICATE and not is_empty(trial)
    ]


def is_empty(trial: FrozenTrial) -> bool:
    """Tell whether a trial's worker died before it had a point: nothing is known of it, and nothing was started."""
    return trial.state == TrialState.FAIL and "batch_size" not in trial.user_attrs


def count(trials: Iterable[FrozenTrial]) -> int:
    """Return how many trials count: those that have an outcome or will have one. A failed job tells of no point."""
    return sum(trial.state != TrialState.FAIL for trial in trials)


def spent(studies: Iterable[tuple[Mapping[str, Any], Sequence[FrozenTrial]]]) -> Spent:
    """Return what studies, each given by its user attributes and its trials, have cost, whatever became of the jobs.

    A job counts once, however many trials followed it. What a running one has cost is known as of its last evaluation.
    `other_billable_seconds` and `other_usd` of the attributes, of jobs that are no trials, are added.
    """
    seconds, usd, unpriced = 0.0, 0.0, list[str]()
    for attrs, trials in studies:
        seconds += float(attrs.get("other_billable_seconds") or 0.0)
        usd += float(attrs.get("other_usd") or 0.0)
        by_job: dict[str, list[FrozenTrial]] = {}
        for trial in trials:
            if job := trial.user_attrs.get("job"):
                by_job.setdefault(job, []).append(trial)
        for job, followed in by_job.items():
            seconds += max(float(trial.user_attrs.get("billable_seconds") or 0.0) for trial in followed)
            usd += max(float(trial.user_attrs.get("usd") or 0.0) for trial in followed)
            ended = [
                trial for trial in followed if trial.user_attrs.get("billable_seconds") and "end" in trial.user_attrs
            ]
            if ended and all(trial.user_attrs.get("usd") is None for trial in ended):
                unpriced.append(job)
    return Spent(billable_instance_seconds=seconds, usd=usd, unpriced=tuple(unpriced))
