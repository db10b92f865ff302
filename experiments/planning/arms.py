"""Arms of a comparison or a probe: variants of one experiment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from experiments.schema.compare_fields import INDUCTOR_OPTIONS, Probe
from experiments.schema.experiment import Experiment, ThisMachine, check_machine, this_machine
from experiments.schema.fields import BUDGET_FIELDS
from experiments.schema.messages import messages
from experiments.schema.overrides import Tree, is_entry, is_field, unknown_field, with_values
from experiments.schema.script_rules import referenced_fields
from experiments.schema.yaml_document import Document
from training.contract.errors import InputError, InputErrors, each_result, nearest, short_text

NOT_IN_ARMS = (
    "compare",
    "probe",
    "calibration",
    "sweep",
    "description",
    "task",
    "service",
    "aws",
    "seed",
    "push_to_hub",
    "published",
    *BUDGET_FIELDS,
)
MIN_STEPS = 25
"""Fewest steady steps for a projection; see training/job/estimating/projection.py."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One setting in a comparison."""

    label: str
    """Name made of the fields that differ between arms, such as `inductor, batch 64`."""
    experiment: Experiment
    """Experiment with the fields of this arm."""
    is_baseline: bool
    """True for the arm that the others are compared with."""


def arms(experiment: Experiment, machine: ThisMachine | None = None) -> tuple[Arm, ...]:
    """Return the arms in order. Raises InputError for an arm that cannot run on `machine`, by default this one."""
    planned = arms_unchecked(experiment)
    here = machine or this_machine()
    each_result(partial(check_machine, arm.experiment, here) for arm in planned)
    return planned


def arms_unchecked(experiment: Experiment) -> tuple[Arm, ...]:
    """Return the arms in order, without checking that this machine can run them."""
    fields_of_arms = enumerate(_fields_of_arms(experiment))
    variants = each_result(partial(_variant, experiment, at, fields) for at, fields in fields_of_arms)
    _check_distinct(variants)
    labels = _labels(variants)
    baseline = labels[0] if experiment.compare.baseline is None else experiment.compare.baseline
    if baseline not in labels:
        listed = ", ".join(short_text(label) for label in labels[:12])
        raise InputError(
            f"compare.baseline {short_text(baseline)} is not one of the arms {listed}.{nearest(baseline, labels)}"
        )
    return tuple(
        Arm(label=label, experiment=variant, is_baseline=label == baseline)
        for label, variant in zip(labels, variants, strict=True)
    )


def _fields_of_arms(experiment: Experiment) -> Sequence[Mapping[str, Any]]:
    """Return the fields of each arm. A script without an argument for the compiler has one arm by default."""
    script, is_set = experiment.script, "arms" in experiment.compare.model_fields_set
    if script is None or is_set or "compiler" in referenced_fields(script).values():
        return experiment.compare.arms
    return ({},)


def _variant(experiment: Experiment, at: int, fields: Mapping[str, Any]) -> Experiment:
    location = f"compare.arms[{at}]"
    for name in fields:
        if not is_field(name):
            raise InputError(unknown_field(name, location))
        if name.split(".")[0] in NOT_IN_ARMS:
            raise InputError(f"{location} must not set {name}: it must be the same for every arm")
    return variant(experiment, {**_equal_evaluation(experiment), **fields}, location)


def _equal_evaluation(experiment: Experiment) -> dict[str, int]:
    """Return the evaluation batch size of all arms. If it followed an arm's `batch_size`, so would evaluation time."""
    script = experiment.script
    is_used = script is None or "eval_batch_size" in referenced_fields(script).values()
    return {"eval_batch_size": experiment.batch_size} if is_used and experiment.eval_batch_size is None else {}


def _check_distinct(variants: Sequence[Experiment]) -> None:
    for later, variant in enumerate(variants):
        if variant in variants[:later]:
            first = variants.index(variant)
            raise InputError(f"compare.arms[{later}] is the same as compare.arms[{first}]: remove one of them")


def single_label(experiment: Experiment) -> str:
    """Return the label of a single arm: its compiler, or the entry point of a script without an argument for it."""
    if experiment.script is None or "compiler" in referenced_fields(experiment.script).values():
        return experiment.compiler
    return experiment.script.program


def variant(experiment: Experiment, fields: Mapping[str, Any], location: str) -> Experiment:
    """Return the experiment with some fields changed, and without its sections `compare` and `sweep`.

    Raises InputError for fields that contradict each other; the message names `location`.
    """
    tree: Tree = experiment.model_dump(mode="json", exclude={"compare", "sweep"}, exclude_unset=True)
    try:
        return Experiment.model_validate(with_values(tree, dict(flat(fields))))
    except ValidationError as error:
        raise InputErrors(messages(error, Document(location, {}), {})) from error


def flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of nested mappings by dotted name. An arm thus changes single entries of a mapping.

    The entries of a mapping with arbitrary keys, such as a script's hyperparameters, stay whole.
    """
    for name, value in fields.items():
        if isinstance(value, Mapping) and not is_entry(prefix + name):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _labels(variants: Sequence[Experiment]) -> list[str]:
    """Return a label for each arm, made from the fields that differ. A single arm is labelled by its compiler."""
    settings = [dict(flat(variant.model_dump(exclude={"compare", "sweep"}))) for variant in variants]
    names = list(dict.fromkeys(name for setting in settings for name in setting))
    differing = [name for name in names if any(s.get(name) != settings[0].get(name) for s in settings)] or ["compiler"]
    differing.sort(key=lambda name: name != "compiler")
    labels = [
        # Options of inductor say nothing about an arm with another compiler.
        ", ".join(
            _part(name, setting.get(name))
            for name in differing
            if name not in INDUCTOR_OPTIONS or setting["compiler"] == "inductor"
        )
        for setting in settings
    ]
    return labels if len(labels) > 1 else [single_label(variants[0])]


def _part(name: str, value: Any) -> str:
    if name == "compiler":
        return str(value)
    if isinstance(value, float):
        text = f"{value:g}"
    elif isinstance(value, (tuple, list)):
        text = "-".join(str(item) for item in value)
    elif isinstance(value, Mapping):
        text = ",".join(f"{key}={each}" for key, each in value.items())
    else:
        text = "default" if value is None else value if isinstance(value, str) else short_text(value)
    if name == "machine.instance_type":
        return text
    if name == "machine.instance_count":
        return f"{text} machine{'' if value == 1 else 's'}"
    for prefix in ("script.hyperparameters.", "script.", "machine."):
        name = name.removeprefix(prefix)
    return f"{'batch' if name == 'batch_size' else name.replace('_', ' ')} {text}"


def probes(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms as probes. Raises `InputError` for an arm that cannot be a probe."""
    for arm in arms:
        _check_probe(arm)
    # A probe evaluates only a sample of the rows, so it cannot reach a target or select the best model.
    removed = {"push_to_hub": None, "target": None, "best_metric": None}
    return tuple(_changed(arm, {"probe": arm.experiment.probe or Probe(), **removed}) for arm in arms)


def whole_trainings(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms without their section `probe`, so that they train to the end."""
    return tuple(_changed(arm, {"probe": None}) for arm in arms)


def _changed(arm: Arm, fields: Mapping[str, Any]) -> Arm:
    return replace(arm, experiment=arm.experiment.model_copy(update=fields))


def _check_probe(arm: Arm) -> None:
    experiment = arm.experiment
    if experiment.script is not None:
        raise InputError(
            "probe requires a task, because it cannot end a script once its speed is known. Use `trainfare compare` "
            "for a script"
        )
    if experiment.calibration is not None:
        raise InputError("calibration and the verb probe cannot be combined: a calibration trains nothing")
    samples = experiment.probe.samples if experiment.probe else None
    fewest = (experiment.steady_after_steps + MIN_STEPS) * experiment.global_batch_size
    if samples is not None and samples < fewest:
        raise InputError(
            f"probe.samples {samples} is too small for arm “{arm.label}”: {experiment.steady_after_steps} warm-up "
            f"steps and {MIN_STEPS} measured steps, of {experiment.global_batch_size} samples each, need {fewest}"
        )


def without_pushes(arms: Sequence[Arm], print_line: Callable[[str], None]) -> tuple[Arm, ...]:
    """Return the arms without their pushes: the models of a comparison would overwrite each other."""
    if any(arm.experiment.push_to_hub for arm in arms):
        print_line("push_to_hub is ignored: only `trainfare train` pushes a model.")
    return tuple(_changed(arm, {"push_to_hub": None}) if arm.experiment.push_to_hub else arm for arm in arms)


def check_token(experiment: Experiment, variables: Mapping[str, str] = os.environ) -> None:
    """Raise `InputError` if the environment variable with the token is not set on this machine."""
    push = experiment.push_to_hub
    if push is None or push.token_secret is not None or variables.get(push.token_variable, "").strip():
        return
    raise InputError(
        f"push_to_hub.token_variable is {push.token_variable}, but this environment variable is not set. Set it to a "
        "Hub token with write permission"
    )
