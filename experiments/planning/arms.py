"""The arms of a comparison: the same experiment, each with some fields set otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from experiments.schema.experiment import Experiment
from experiments.schema.messages import first_sentence
from experiments.schema.overrides import Tree, is_field, unknown_field, with_values
from experiments.schema.rules import Here, check_machine, this_machine
from experiments.schema.script_rules import taken
from experiments.schema.yaml_document import Document
from training.contract.errors import InputError, nearest
from training.staging.rows.examples import shown

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
)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One setting in a comparison."""

    label: str
    """What sets it apart, such as `inductor, batch 64`."""
    experiment: Experiment
    """The experiment as this arm runs it."""
    is_baseline: bool
    """Whether the others are compared with it."""


def arms(experiment: Experiment, here: Here | None = None) -> tuple[Arm, ...]:
    """Return the arms in their order; refuse those that this machine (or another one, `here`) cannot run."""
    found = arms_anywhere(experiment)
    machine = here or this_machine()
    for arm in found:
        check_machine(arm.experiment, machine)
    return found


def arms_anywhere(experiment: Experiment) -> tuple[Arm, ...]:
    """Return the arms in their order, whatever machine they need."""
    variants = [_variant(experiment, at, fields) for at, fields in enumerate(_fields_of_arms(experiment))]
    _refuse_twins(variants)
    labels = _labels(variants)
    baseline = labels[0] if experiment.compare.baseline is None else experiment.compare.baseline
    if baseline not in labels:
        listed = ", ".join(shown(label) for label in labels[:12])
        raise InputError(f"compare.baseline {shown(baseline)} is none of the arms {listed}.{nearest(baseline, labels)}")
    return tuple(
        Arm(label=label, experiment=variant, is_baseline=label == baseline)
        for label, variant in zip(labels, variants, strict=True)
    )


def _fields_of_arms(experiment: Experiment) -> Sequence[Mapping[str, Any]]:
    """Return what each arm sets; a script that cannot be told of a compiler has no default arms but itself."""
    script, told = experiment.script, "arms" in experiment.compare.model_fields_set
    if script is None or told or "compiler" in taken(script).values():
        return experiment.compare.arms
    return ({},)


def label_alone(experiment: Experiment) -> str:
    """Return what a single arm is called: its compiler, or its script where that takes none."""
    if experiment.script is None or "compiler" in taken(experiment.script).values():
        return experiment.compiler
    return experiment.script.entry_point


def _variant(experiment: Experiment, at: int, fields: Mapping[str, Any]) -> Experiment:
    place = f"compare.arms[{at}]"
    for name in fields:
        if not is_field(name):
            raise InputError(unknown_field(name, place))
        if name.split(".")[0] in NOT_IN_ARMS:
            raise InputError(f"{place} must not set {name}: it is the same for every arm")
    return variant(experiment, fields, place)


def variant(experiment: Experiment, fields: Mapping[str, Any], place: str) -> Experiment:
    """Return the experiment with some fields set otherwise, and without what it says of comparisons and sweeps.

    Raises InputError, which names `place`, for fields that contradict each other.
    """
    tree: Tree = experiment.model_dump(mode="json", exclude={"compare", "sweep"}, exclude_unset=True)
    try:
        return Experiment.model_validate(with_values(tree, dict(flat(fields))))
    except ValidationError as error:
        raise InputError(first_sentence(error, Document(place, {}), {})) from error


def flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of nested mappings by dotted name, so that an arm adds to a mapping and replaces none."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _refuse_twins(variants: Sequence[Experiment]) -> None:
    for later, variant in enumerate(variants):
        if variant in variants[:later]:
            first = variants.index(variant)
            raise InputError(f"compare.arms[{later}] is the same arm as compare.arms[{first}]")


def _labels(variants: Sequence[Experiment]) -> list[str]:
    """Return for each variant the values in which the variants differ; of a single one, its compiler."""
    settings = [dict(flat(variant.model_dump(exclude={"compare", "sweep"}))) for variant in variants]
    names = list(dict.fromkeys(name for setting in settings for name in setting))
    telling = [name for name in names if any(s.get(name) != settings[0].get(name) for s in settings)] or ["compiler"]
    telling.sort(key=lambda name: name != "compiler")
    labels = [", ".join(_part(name, setting.get(name)) for name in telling) for setting in settings]
    return labels if len(labels) > 1 else [label_alone(variants[0])]


def _part(name: str, value: Any) -> str:
    if name == "compiler":
        return str(value)
    if isinstance(value, float):
        text = f"{value:g}"
    elif isinstance(value, (tuple, list)):
        text = "-".join(str(item) for item in value)
    else:
        text = "default" if value is None else value if isinstance(value, str) else shown(value)
    if name == "machine.instance_type":
        return text
    if name == "machine.instance_count":
        return f"{text} machine{'' if value == 1 else 's'}"
    return f"{_known(name).replace('_', ' ')} {text}"


def _known(name: str) -> str:
    """Return what a field is called in a label."""
    for prefix in ("script.hyperparameters.", "script.", "machine."):
        name = name.removeprefix(prefix)
    return {"batch_size": "batch"}.get(name, name)
