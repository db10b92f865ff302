"""Which arms of a comparison are checked before they train, and why others are not. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from experiments.planning.inputs import Inputs
from experiments.planning.load import Arm
from experiments.schema.experiment import Experiment
from experiments.schema.overrides import flat
from reports.model.numbers import joined
from training.contract.errors import InputError
from training.job.settings.declared import COMPILER_OPTIONS, PLAIN, SETTINGS, traits_of

CHECKED = frozenset({*PLAIN, *COMPILER_OPTIONS, "packing", "machine"})
"""Fields that should change the time of a training and nothing else."""
_MODEL = ("task", "model", "model_type", "model_revision", "model_overrides", "weights", "adapter")
"""Fields on which the result of a check depends, with `CHECKED` and the data."""


class CheckedArms(NamedTuple):
    arms: dict[str, list[str]]
    """Labels of the arms that a check stands for, by the label of the arm whose job it is."""
    reasons: dict[str, str]
    """Why an arm is not checked, by its label."""


NO_CHECKS = CheckedArms({}, {})


def checked_arms(arm_inputs: Iterable[tuple[Arm, Inputs]]) -> CheckedArms:
    """Return the arms to check: all but the baseline, or the only arm. Arms with equal checked fields share a check."""
    arms = list(arm_inputs)
    checks: dict[tuple[str, str], list[str]] = {}
    reasons: dict[str, str] = {}
    baseline = next((arm.experiment for arm, _ in arms if arm.is_baseline), None)
    for arm, inputs in arms:
        if arm.is_baseline and len(arms) > 1:
            continue
        if reason := _reason(arm.experiment, baseline):
            reasons[arm.label] = reason
        else:
            key = arm.experiment.model_dump_json(include={*CHECKED, *_MODEL}), inputs.key
            checks.setdefault(key, []).append(arm.label)
    return CheckedArms({labels[0]: labels for labels in checks.values()}, reasons)


def require_checks(arms: CheckedArms) -> None:
    """Raise `InputError` if no arm is to be checked."""
    if not arms.arms:
        reasons = "; ".join(f"“{label}”: {reason}" for label, reason in arms.reasons.items())
        raise InputError(f"no arm differs from the baseline in a setting that can be checked ({reasons})")


def _reason(experiment: Experiment, baseline: Experiment | None) -> str:
    """Return why an arm is not checked, or an empty text."""
    if experiment.script is not None:
        return "a script trains by itself"
    if baseline is None or baseline is experiment:
        return ""
    mine, its = (
        dict(flat(each.model_dump(mode="json", exclude={"compare", "sweep"}))) for each in (experiment, baseline)
    )
    differing = [name for name in {**its, **mine} if mine.get(name) != its.get(name)]
    if any(name.split(".")[0] in CHECKED for name in differing):
        return ""
    learned = [name for name in differing if name not in SETTINGS or traits_of(SETTINGS[name]).changes_training]
    if not learned:
        return f"{joined(differing)} has no part in a step"
    return f"{joined(learned)} change{'s' if len(learned) == 1 else ''} what is learned"
