"""Selection of the arms that are checked before they train, with the reasons for the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.planning.inputs import Inputs
from experiments.planning.load import Arm
from experiments.planning.plan import WITHOUT_EFFECT_ON_JOBS
from experiments.schema.experiment import Experiment
from experiments.schema.overrides import flat
from reports.model.numbers import joined
from training.contract.errors import InputError
from training.job.settings.declared import COMPILER_OPTIONS, PLAIN, SETTINGS, traits_of
from training.job.tasks import TASKS
from training.services.registry import SECTIONS

CHECKED = frozenset({*PLAIN, *COMPILER_OPTIONS, "bucket_lengths", "machine", *SECTIONS})
"""Fields that should change the time of a training and nothing else."""
MODEL = frozenset({"task", "model", "model_type", "model_revision", "model_overrides", "weights", "adapter"})


def checked_arms(arm_inputs: Sequence[tuple[Arm, Inputs]]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the labels of the arms of each check, by the first one's label, and why other arms are not checked.

    All arms but the baseline are checked, or the only arm. Those with equal `CHECKED` fields share a check.
    """
    checks: dict[tuple[str, str], list[str]] = {}
    reasons: dict[str, str] = {}
    baseline = next((arm.experiment for arm, _ in arm_inputs if arm.is_baseline), None)
    for arm, inputs in arm_inputs:
        if arm.is_baseline and len(arm_inputs) > 1:
            continue
        if reason := _reason(arm.experiment, baseline):
            reasons[arm.label] = reason
        else:
            fields = arm.experiment.model_dump(mode="json", exclude=WITHOUT_EFFECT_ON_JOBS)
            key = str([fields.get(name) for name in sorted(CHECKED | MODEL)]), inputs.key
            checks.setdefault(key, []).append(arm.label)
    return {labels[0]: labels for labels in checks.values()}, reasons


def require_checks(checks: Mapping[str, Sequence[str]], reasons: Mapping[str, str]) -> None:
    """Raise InputError if no arm is checked."""
    if not checks:
        listed = "; ".join(f"“{label}”: {reason}" for label, reason in reasons.items())
        raise InputError(f"no arm differs from the baseline in a setting that can be checked ({listed})")


def _reason(experiment: Experiment, baseline: Experiment | None) -> str:
    if experiment.script is not None:
        return "a script trains by itself"
    if experiment.adapter is not None and experiment.adapter.method == "qlora":
        return "qlora computes in 16 bits, where rounding hides differences"
    if baseline is None or baseline is experiment:
        return ""
    unused = {**WITHOUT_EFFECT_ON_JOBS, "compare": True}
    mine, its = (dict(flat(each.model_dump(exclude=unused))) for each in (experiment, baseline))
    differing = [name for name in {**its, **mine} if mine.get(name) != its.get(name)]
    # Only a task that keeps the texts of a packed row apart learns the same from them.
    packing = {"packing"}.intersection(TASKS[experiment.task].training_options)
    if any(name.split(".")[0] in CHECKED | packing for name in differing):
        return ""
    learned = [name for name in differing if name not in SETTINGS or traits_of(SETTINGS[name]).changes_training]
    if not learned:
        return f"{joined(differing)} has no part in a step"
    return f"{joined(learned)} change{'s' if len(learned) == 1 else ''} what is learned"
