"""Load an experiment from its file and overrides, with every check that needs no data, and make its arms."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from experiments.schema.experiment import (
    Experiment,
    broken_rules,
    check_machine,
    referenced_fields,
    this_machine,
)
from experiments.schema.fields import (
    BUDGET_FIELDS,
    INDUCTOR_OPTIONS,
    MAX_ARM_NAME,
    AutoBatchSize,
    ExperimentFields,
    Probe,
)
from experiments.schema.overrides import (
    ARM_PREFIX,
    BACKEND_CONFIG,
    IN_FILE,
    Tree,
    backend_values,
    flat,
    is_field,
    messages,
    read_overrides,
    rule_message,
    unknown_field,
    with_arm_overrides,
    with_values,
)
from experiments.schema.yaml_document import Document, read_document
from state.regular_files import user_path
from sweeps.search_space import space
from training.contract.errors import InputError, InputErrors, each_result, nearest, short_text
from training.contract.s3_location import is_s3
from training.scripts.source import is_git_url
from training.staging.models.model_files import PACKAGE_PREFIX

FOLDER = Path(__file__).resolve().parent.parent
PATH_FIELDS = (
    *("model", "tokenizer", "data.train", "data.validation", "data.hub.name"),
    *("script.source", "aws.prices", "quality"),
)
"""Fields that may hold a path. A path in a file is relative to the folder of the file."""
CHANNELS = "script.channels."
"""Beginning of the fields whose text, or whose `uri`, may be a path."""
RUN_VARIABLE = "MLFLOW_RUN_ID"
"""Variable that `mlflow run` sets for the commands that it starts."""


def load(name_or_path: str, overrides: Mapping[str, str]) -> Experiment:
    """Return the experiment in `experiments/NAME.yaml` or at a path, with overrides by dotted name.

    The override `backend_config` names a file whose fields replace the experiment's. All other overrides take
    precedence over both files. Paths in a file are relative to its folder, paths in overrides to the current folder.
    Raises `InputError`, also for an experiment that this machine cannot run.
    """
    experiment = load_fields(name_or_path, overrides)
    arms_unchecked(experiment)  # `train` refuses an invalid arm, too
    check_machine(experiment, this_machine())
    return experiment


def load_fields(name_or_path: str, overrides: Mapping[str, str]) -> Experiment:
    """Return the experiment as `load` does, without a check of its arms and of this machine. Raises `InputError`."""
    document = read_document(find_file(name_or_path))
    of_arms = {name: text for name, text in overrides.items() if name.startswith(ARM_PREFIX)}
    fields = {name: text for name, text in overrides.items() if name not in {BACKEND_CONFIG, *of_arms}}
    values, locations = dict[str, Any](), dict[str, str]()
    if file := overrides.get(BACKEND_CONFIG):
        kind = "backend configuration"
        backend = read_document(_existing(user_path(file, BACKEND_CONFIG), kind), kind)
        values, locations = backend_values(replace(backend, tree=_rebased(backend.tree, backend)))
    own, errors = read_overrides(fields)
    tree = _rebased(document.tree, document)
    compare = tree.get("compare")
    if "compare.arms" in fields and isinstance(compare, dict):  # the file's baseline names an arm of the file
        tree = {**tree, "compare": {name: value for name, value in compare.items() if name != "baseline"}}
    tree, arm_errors = with_arm_overrides(with_values(with_values(tree, values), own), of_arms)
    other_locations = {name: f"override {name}" for name in fields}
    other_locations |= {name: location for name, location in locations.items() if name not in fields}
    experiment, problems = None, list[str]()
    try:
        experiment = Experiment.model_validate(tree)
    except ValidationError as error:
        problems = messages(error, document, other_locations)
        if all(not each["loc"] for each in error.errors()):  # the fields are right, and the first rule between them
            rules = broken_rules(ExperimentFields.model_validate(tree))
            problems = [rule_message(each, document, other_locations) for each in rules]
    if experiment is None or errors or arm_errors:
        raise InputErrors([*errors, *arm_errors, *problems])
    return experiment


def experiment_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find_file(name_or_path: str) -> Path:
    """Return the path of an experiment. Text with a slash or the suffix .yaml or .yml is a path, other text a name."""
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        return _existing(user_path(name_or_path, "experiment"), "experiment")
    if name_or_path not in (names := experiment_names()):
        listed = ", ".join(names)
        hint = nearest(name_or_path, names)
        raise InputError(f"unknown experiment {name_or_path[:80]!r}. Use one of {listed}, or a .yaml file.{hint}")
    return FOLDER / f"{name_or_path}.yaml"


def _existing(path: Path, kind: str) -> Path:
    """Return a path if it is absolute or exists. Raises InputError with the folder. `kind` is the kind of file."""
    if path.is_absolute() or path.exists():
        return path
    is_by_mlflow = RUN_VARIABLE in os.environ
    hint = " `mlflow run` starts commands in the project's folder: use an absolute path." if is_by_mlflow else ""
    raise InputError(f"{kind} file {str(path)!r} does not exist in {Path.cwd()}.{hint}")


def _may_be_path(name: str) -> bool:
    return name in PATH_FIELDS or name.startswith(CHANNELS)


def _rebased(tree: Tree, document: Document) -> Tree:
    """Return the tree with relative paths resolved against the document's folder, including those in the arms."""
    folder = Path(document.name).parent
    fields = _with_rebased_paths(tree, folder)
    compare = fields.get("compare")
    arms = compare.get("arms") if isinstance(compare, dict) else None
    if isinstance(compare, dict) and isinstance(arms, (list, dict)):
        items = enumerate(arms) if isinstance(arms, list) else arms.items()
        rebased = {at: _with_rebased_paths(arm, folder) if isinstance(arm, dict) else arm for at, arm in items}
        fields["compare"] = {**compare, "arms": list(rebased.values()) if isinstance(arms, list) else rebased}
    return fields


def _with_rebased_paths(tree: Tree, folder: Path, prefix: str = "") -> Tree:
    rebased: Tree = {}
    for key, value in tree.items():
        name = prefix + key
        if isinstance(value, dict) and prefix == CHANNELS:
            value = {
                field: _rebased_path(name, each, folder) if field == "uri" else each for field, each in value.items()
            }
        elif isinstance(value, dict):
            value = _with_rebased_paths(value, folder, f"{name}.")
        elif _may_be_path(name):
            value = _rebased_path(name, value, folder)
        rebased[key] = value
    return rebased


def with_absolute_paths(tree: Tree) -> Tree:
    """Return the tree of a loaded experiment, whose relative paths are in the current folder, with absolute paths."""
    folder = Path.cwd()
    paths = {name: value for name, value in flat(tree) if name in PATH_FIELDS and isinstance(value, str)}
    is_here = {name: Path(value).exists() for name, value in paths.items()}
    return with_values(
        tree,
        {name: str(folder / v) if is_here[name] else _rebased_path(name, v, folder) for name, v in paths.items()},
    )


def _rebased_path(name: str, value: Any, folder: Path) -> Any:
    """Return a path resolved against `folder`. A model or Hub name is a path only if it starts with ./ or ../."""
    if not isinstance(value, str) or value.startswith(("~", "/")) or is_s3(value):
        return value
    if name.startswith("script."):
        is_path = not is_git_url(value) and not value.startswith((PACKAGE_PREFIX, "builtin:"))
    else:
        is_path = name in {"data.train", "data.validation", "aws.prices", "quality"} or value.startswith(("./", "../"))
    return str(folder / value) if is_path and value else value


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
    "quality",
    "push_to_hub",
    "published",
    *BUDGET_FIELDS,
)
DEFAULT_BATCH_SIZES = "8..256"
MIN_STEPS = 25
"""Fewest steady steps for a projection; see training/job/estimating/projection.py."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One setting in a comparison."""

    label: str
    """Its name. Without one, the fields in which it differs from the baseline, such as `inductor, batch 64`."""
    experiment: Experiment
    """Experiment with the fields of this arm."""
    is_baseline: bool
    """True for the arm that the others are compared with."""
    fields: tuple[str, ...] = ()
    """Fields that any arm of the comparison sets, by dotted name."""
    batch_sizes: tuple[int, ...] = ()
    """Sizes from which a calibration chooses, ascending; empty if the batch size is a number, or chosen."""

    def with_batch_size(self, size: int | None) -> Arm:
        """Return the arm with a chosen batch size, or the same arm for None."""
        return self if size is None else replace(_changed(self, {"batch_size": size}), batch_sizes=())


def arms(experiment: Experiment) -> tuple[Arm, ...]:
    """Return the arms in order. Raises InputError for an arm that cannot run on this machine."""
    planned, here = arms_unchecked(experiment), this_machine()
    each_result(partial(check_machine, arm.experiment, here) for arm in planned)
    return planned


def arms_unchecked(experiment: Experiment) -> tuple[Arm, ...]:
    """Return the arms in order, without checking that this machine can run them."""
    listed = _fields_of_arms(experiment)
    names = [fields.get("name") for fields in listed]
    own = [{name: value for name, value in fields.items() if name != "name"} for fields in listed]
    places = [f"compare.arms.{name}" if name else f"compare.arms[{at}]" for at, name in enumerate(names)]
    variants = each_result(partial(_variant, experiment, *each) for each in zip(own, places, strict=True))
    settings = _settings(variants)
    for later, each in enumerate(settings):
        if each in settings[:later]:
            raise InputError(f"{places[later]} is the same as {places[settings.index(each)]}: remove one of them")
    whole = map(_label, settings) if len(settings) > 1 else [single_label(variants[0])]
    full_labels = [name or label for name, label in zip(names, whole, strict=True)]
    baseline = _baseline(experiment.compare.baseline, names, settings, full_labels)
    labels = _labels(names, settings, full_labels, baseline)
    if "baseline" in names and names.index("baseline") != baseline:
        raise InputError("compare.arms.baseline is not the baseline: set compare.baseline to it, or name it otherwise")
    fields = tuple(dict.fromkeys(name for each in own for name, _ in flat(each)))
    planned = [
        Arm(label=labels[at], experiment=each, is_baseline=at == baseline, fields=fields)
        for at, each in enumerate(variants)
    ]
    return tuple(each_result(partial(with_batch_sizes, arm, experiment.sweep.batch_sizes) for arm in planned))


def with_batch_sizes(arm: Arm, searched: str | None) -> Arm:
    """Return an arm whose batch size is `auto` with the sizes of its range, each checked. Raises InputError.

    `searched` is the field `sweep.batch_sizes`. Until a size is chosen, the arm counts as one of the smallest size.
    """
    experiment = arm.experiment
    if not isinstance(experiment.batch_size, AutoBatchSize):
        return arm
    searched = searched or DEFAULT_BATCH_SIZES
    try:
        sizes = space(searched, None, "powers_of_two").batch_sizes
    except ValueError as error:
        raise InputError(f"sweep.{error}") from error
    timed = {"calibration.batch_sizes": [*sizes], "push_to_hub": None, "probe": None}
    for size, more in [*((size, {}) for size in sizes), (sizes[0], timed)]:
        variant(experiment, {"batch_size": size, **more}, f"arm “{arm.label}” with batch_size 'auto'")
    return replace(_changed(arm, {"batch_size": AutoBatchSize(sizes[0])}), batch_sizes=sizes)


def _fields_of_arms(experiment: Experiment) -> Sequence[Mapping[str, Any]]:
    """Return the fields of each arm. A script without an argument for the compiler has one arm by default."""
    script, is_set = experiment.script, "arms" in experiment.compare.model_fields_set
    if script is None or is_set or "compiler" in referenced_fields(script).values():
        return experiment.compare.arms
    return ({},)


def _variant(experiment: Experiment, fields: Mapping[str, Any], location: str) -> Experiment:
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


def _settings(variants: Sequence[Experiment]) -> list[dict[str, Any]]:
    """Return the values of the fields that differ between arms, the compiler first, for each arm.

    Options of inductor say nothing about an arm with another compiler, and are left out there.
    """
    settings = [dict(flat(variant.model_dump(exclude={"compare", "sweep"}))) for variant in variants]
    names = list(dict.fromkeys(name for setting in settings for name in setting))
    differing = [name for name in names if any(s.get(name) != settings[0].get(name) for s in settings)] or ["compiler"]
    differing.sort(key=lambda name: name != "compiler")
    return [
        {
            name: setting.get(name)
            for name in differing
            if name not in INDUCTOR_OPTIONS or setting["compiler"] == "inductor"
        }
        for setting in settings
    ]


def _labels(
    names: Sequence[str | None], settings: Sequence[Mapping[str, Any]], full_labels: Sequence[str], baseline: int
) -> list[str]:
    """Return the name of each arm or, without one, the values in which it differs from the baseline.

    The baseline itself has the values of all fields, or the label `baseline` if they are too long for a name. Equal
    labels get numbers.
    """
    base, labels = settings[baseline], list[str]()
    for at, name in enumerate(names):
        if name is not None:
            label = name
        elif at == baseline:
            label = full_labels[at] if len(full_labels[at]) <= MAX_ARM_NAME else "baseline"
        else:
            own = settings[at].items()
            label = _label({field: value for field, value in own if field not in base or value != base[field]})
        labels.append(label)
    return [
        f"{label} ({at + 1})" if name is None and label in (*names, *labels[:at]) else label
        for at, (name, label) in enumerate(zip(names, labels, strict=True))
    ]


def _label(values: Mapping[str, Any]) -> str:
    return ", ".join(_part(name, value) for name, value in values.items())


def _baseline(
    wanted: str | None,
    names: Sequence[str | None],
    settings: Sequence[Mapping[str, Any]],
    full_labels: Sequence[str],
) -> int:
    """Return the position of the baseline. Raises InputError for a text that is neither a name nor a label."""
    if wanted is None:
        return 0
    labels = _labels(names, settings, full_labels, 0)  # as shown without `compare.baseline`
    for each in (full_labels, labels):
        if wanted in each:
            return each.index(wanted)
    listed = ", ".join(short_text(label) for label in labels[:12])
    raise InputError(f"compare.baseline {short_text(wanted)} is not one of the arms {listed}.{nearest(wanted, labels)}")


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
    name = IN_FILE.sub(r"\3", name)
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
    if arm.batch_sizes:
        raise InputError("batch_size 'auto' and the verb probe cannot be combined: a probe measures one size. Set it")
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
