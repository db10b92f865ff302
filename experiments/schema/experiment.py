"""Experiment: all fields, checked by the rules between them, and by the limits of this machine.

The last part is about scripts, whose hyperparameters may refer to fields.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from pydantic import JsonValue, model_validator

from experiments.schema.fields import BUDGET_FIELDS, AutoBatchSize, ExperimentFields, check_metric
from experiments.schema.overrides import known_fields
from experiments.schema.sections import Machine, Script
from tracking.recording.script_log import LOWER_IS_BETTER, metric_name
from training.contract.errors import InputError, nearest
from training.contract.job_spec import FOR_SCRIPTS, NOT_CHOSEN, Scalar
from training.contract.request import TRAINING_COMPILER
from training.job.settings.declared import SHARDING_SINCE, contradictions, unused_options
from training.job.tasks import METRICS_BY_NAME, OWN_METRICS, TASKS
from training.services.registry import SECTIONS, SERVICES, services_with, traits_of

Check = Callable[[ExperimentFields], None]
MAX_TASK_LEARNING_RATE = 10.0
"""Largest learning rate of our own tasks, which train with AdamW. A script may have any rate."""
NEEDS_GPU = {
    ("precision", "fp16"): "'auto', 'bf16' or 'fp32'",
    ("precision", "fp8"): "'auto', 'bf16' or 'fp32'",
    ("kernels", "liger"): "'torch'",
}
"""Values that need an NVIDIA GPU, and those to use without one."""


class Experiment(ExperimentFields):
    """Valid experiment. Raises `ValidationError` for fields that contradict each other."""

    @model_validator(mode="after")
    def _check_rules(self) -> Experiment:
        for rule in broken_rules(self):
            raise ValueError(rule)
        return self


def broken_rules(experiment: ExperimentFields) -> list[str]:
    """Return the messages of all rules between fields that an experiment breaks."""
    if experiment.script is None and experiment.data is None:
        return ["data is missing"]
    broken = {message: None for is_broken, message in _conditions(experiment) if is_broken}
    for check in (check_script, _check_service) if experiment.script else CHECKS:
        try:
            check(experiment)
        except ValueError as error:
            broken[str(error)] = None
    if experiment.script is not None:
        broken |= dict.fromkeys(unused_options(experiment))
    else:
        broken |= dict.fromkeys(contradictions(experiment, experiment.evaluation))
    return list(broken)


def _conditions(experiment: ExperimentFields) -> Iterator[tuple[bool, str]]:
    """Yield conditions that break a rule, each with its message: those that a single expression states."""
    machine, calibration = experiment.machine, experiment.calibration
    for name, values in (
        ("compare.looks", experiment.compare.looks),
        ("bucket_lengths", experiment.bucket_lengths or ()),
        ("calibration.batch_sizes", calibration.batch_sizes if calibration else ()),
    ):
        for first, second in pairwise(values):
            yield first >= second, f"{name} must be ascending, but {second} follows {first}"
    is_auto = isinstance(experiment.batch_size, AutoBatchSize)
    if experiment.script is not None:
        message = "batch_size 'auto' requires a task: the steps of a script cannot be timed. Set it to a number"
        yield is_auto, message
        return
    for name, value in (("compiler", experiment.compiler), ("machine.launcher", machine.launcher)):
        reason = "its images are older than our tasks need; experiments/published/ has examples"
        yield value in FOR_SCRIPTS, f"{name} {value!r} requires a script: {reason}"
    message = "batch_size 'auto' and calibration cannot be combined: `auto` makes its own calibration"
    yield is_auto and calibration is not None, message
    message = "batch_size 'auto' needs epochs, not max_steps: the samples of the training must not depend on the choice"
    yield is_auto and experiment.max_steps is not None, message
    model_type, is_pretrained = experiment.model_type, experiment.first_weights == "pretrained"
    problem = "neither is set" if experiment.model is None else "both are set"
    is_one = (experiment.model is None) != (model_type is None)
    yield not is_one, f"exactly one of model and model_type is required, but {problem}"
    for name, kind in (("model_overrides", "configuration"), ("tokenizer", "tokenizer")):
        reason = f"because pretrained weights fit only their own {kind}"
        yield is_pretrained and bool(getattr(experiment, name)), f"{name} requires weights: random, {reason}"
    if is_one and model_type is not None:
        yield (
            is_pretrained,
            f"weights must be 'random' if model_type is set: architecture {model_type!r} has no pretrained weights",
        )
        yield (
            experiment.model_revision is not None,
            f"model_revision requires a model of the Hub, not model_type {model_type!r}",
        )
        yield (
            experiment.tokenizer is None,
            f"tokenizer is required with model_type {model_type!r}: an architecture has no tokenizer of its own",
        )
    for name in ("base_learning_rate", "max_learning_rate"):
        rate = getattr(experiment, name) or 0.0
        message = f"{name} must be at most {MAX_TASK_LEARNING_RATE:g} for a task, not {rate:g}"
        yield rate > MAX_TASK_LEARNING_RATE, message
    yield (
        experiment.push_to_hub is not None and not experiment.save_model,
        "push_to_hub needs the trained model, but save_model is false",
    )
    yield (
        experiment.eval_strategy == "samples" and experiment.eval_samples is None,
        "eval_strategy 'samples' requires eval_samples, the number of samples in between",
    )
    for name in ("probe", "push_to_hub"):
        message = f"calibration and {name} cannot be combined: a calibration trains nothing"
        yield calibration is not None and getattr(experiment, name) is not None, message


def _check_service(experiment: ExperimentFields) -> None:
    """Check our own rules. The service's rules follow when it is opened."""
    if experiment.compiler_debug and experiment.compiler != "trcomp":
        raise ValueError(f"compiler_debug requires compiler 'trcomp'; the compiler is {experiment.compiler!r}")
    traits, machine = traits_of(experiment.service), experiment.machine
    own, service = traits.instance_type, f"the {traits.name} service"
    if own is None and machine.instance_type == NOT_CHOSEN:
        needs = f"service {traits.name!r} needs one such as ml.g5.xlarge"
        raise ValueError(f"machine.instance_type is {NOT_CHOSEN!r}, but {needs}")
    for other in (room.TRAITS for room in SERVICES.values() if not room.TRAITS.reads_aws and room.TRAITS.section):
        if other != traits and getattr(experiment, str(other.section)).model_fields_set:
            raise ValueError(f"{other.section} requires service {other.name!r}; the service is {traits.name!r}")
    for name in (name for room in SERVICES.values() for name in room.TRAITS.machine_fields):
        is_foreign = name not in traits.machine_fields
        if is_foreign and getattr(machine, name) != Machine.model_fields[name].get_default(call_default_factory=True):
            owners = " or ".join(repr(owner) for owner, room in SERVICES.items() if name in room.TRAITS.machine_fields)
            raise ValueError(f"machine.{name} requires service {owners}; the service is {traits.name!r}")
    if experiment.compiler in TRAINING_COMPILER and not traits.runs_containers:
        raise ValueError(
            f"compiler {experiment.compiler!r} does not run on {traits.label}: it exists only in SageMaker's Training "
            "Compiler images. To compile here, use 'inductor'"
        )
    if own is not None and machine.instance_type not in (own, NOT_CHOSEN):
        raise ValueError(f"machine.instance_type {machine.instance_type!r} must be {own!r} on {service}")
    if traits.runs_here and machine.instance_count != 1:
        raise ValueError(f"machine.instance_count {machine.instance_count} must be 1: {service} is one machine")
    restarts = experiment.script is not None or experiment.calibration is not None
    if machine.spot and not restarts and experiment.save_strategy == "none":
        raise ValueError("machine.spot needs checkpoints to resume from, but save_strategy is none")


def _check_sharding(experiment: ExperimentFields) -> None:
    """The job checks its version of torch, and `contradictions` the other settings."""
    if experiment.sharding == "none":
        return
    machine = experiment.machine
    version = machine.image.versions().get("pytorch", "") if machine.image else ""
    if "." in version and tuple(int(part) for part in version.split(".")[:2]) < SHARDING_SINCE:
        raise ValueError(f"sharding 'fsdp2' needs torch 2.6 or later, but machine.image.pytorch is {version}")
    if experiment.calibration is not None and machine.devices * machine.instance_count > 1:
        raise ValueError(
            "calibration and sharding 'fsdp2' cannot be combined on several devices: a calibration takes steps on one "
            "device at a time"
        )


def _check_task_options(experiment: ExperimentFields) -> None:
    own = TASKS[experiment.task].options
    for name, option in (each for task in TASKS.values() for each in task.options.items()):
        if option.requires_task and name not in own and getattr(experiment, name) is not None:
            tasks = " or ".join(task.name for task in TASKS.values() if name in task.options)
            raise ValueError(f"{name} requires task {tasks}; the task is {experiment.task}")
    TASKS[experiment.task].check_options(experiment)


def _check_labels(experiment: ExperimentFields) -> None:
    assert experiment.data is not None, "only scripts have no data"
    columns = experiment.data.columns
    readers = [task.name for task in TASKS.values() if {*(columns.labels or ())} <= {*task.columns(columns)}]
    if experiment.task not in readers:
        raise ValueError(f"data.columns.labels requires task {' or '.join(readers)}; the task is {experiment.task}")
    for name in ("negative", "score"):
        if getattr(columns, name) not in (None, *TASKS[experiment.task].columns(columns)):
            raise ValueError(f"data.columns.{name} is not read by task {experiment.task}")
    if TASKS[experiment.task].has_classes:
        return
    for name in ("labels", "label_map", "skip_labels"):
        if getattr(experiment.data, name) is not None:
            with_classes = " or ".join(task.name for task in TASKS.values() if task.has_classes)
            raise ValueError(f"data.{name} requires task {with_classes}; {experiment.task} has no labels")


def _check_metrics(experiment: ExperimentFields) -> None:
    if experiment.best_metric is not None:
        check_metric("best_metric", experiment.best_metric, experiment)
    if (target := experiment.target) is None:
        return
    check_metric("target.metric", target.metric, experiment)
    best, direction = METRICS_BY_NAME[target.metric].best, METRICS_BY_NAME[target.metric].direction
    if target.value < best if direction == "min" else target.value > best:
        raise ValueError(f"target.value {target.value:g} cannot be reached: {target.metric} is at best {best:g}")


CHECKS: tuple[Check, ...] = (_check_service, _check_sharding, _check_task_options, _check_labels, _check_metrics)
"""Checks of an experiment with a task. Each raises `ValueError`."""


@dataclass(frozen=True, kw_only=True)
class ThisMachine:
    """Resources of this machine."""

    cores: int
    """CPU cores that this process may use."""
    has_gpu: bool
    """True if an NVIDIA GPU is visible."""
    cxx: str
    """C++ compiler that `torch.compile` calls on a CPU."""
    has_cxx: bool
    """True if that compiler is installed."""


def this_machine() -> ThisMachine:
    """Return the resources of this machine, without importing torch."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cxx = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    has_gpu = any(Path("/dev").glob("nvidia[0-9]*"))
    return ThisMachine(cores=cores, has_gpu=has_gpu, cxx=cxx, has_cxx=shutil.which(cxx) is not None)


def check_machine(experiment: ExperimentFields, machine: ThisMachine) -> None:
    """Raise InputError for an experiment that the local service cannot run on this machine."""
    if not traits_of(experiment.service).runs_here:
        return
    cores = experiment.machine.cores
    if cores is not None and cores > machine.cores:
        raise InputError(f"machine.cores is {cores}, but this machine has {machine.cores}")
    for (name, value), usable in NEEDS_GPU.items():
        if getattr(experiment, name) == value and not machine.has_gpu:
            raise InputError(f"{name} {value!r} needs a GPU, which this machine does not have: use {usable}")
    if experiment.adapter and experiment.adapter.method == "qlora" and not machine.has_gpu:
        raise InputError("adapter.method 'qlora' needs a GPU, which this machine does not have: use 'lora'")
    if experiment.compiler == "inductor" and not machine.has_gpu and not machine.has_cxx:
        raise InputError(
            f"compiler 'inductor' needs a C++ compiler on a CPU, but {machine.cxx!r} is not installed: install g++ "
            f"(Debian and Ubuntu: apt-get install g++) or set CXX"
        )


SIGN = "$"
HYPERPARAMETERS, FILES = "script.hyperparameters.", "script.files."
"""Beginnings of the dotted names of what a script gets."""

INDEPENDENT_OF_SCRIPT = frozenset(
    {
        "description",
        "script",
        "service",
        "machine",
        *SECTIONS,
        "compare",
        "sweep",
        "target",
        "compiler",
        "compiler_debug",
        "learning_rate_scaling",
        "published",
        *BUDGET_FIELDS,
    }
)
"""Fields that apply to any job, or only control how other fields are computed."""

_RATE = {"base_learning_rate", "base_batch_size", "learning_rate_multiplier", "max_learning_rate"}

DERIVED = {
    "learning_rate": _RATE | {"batch_size"},
    "adam_beta1": {"adam_beta1", "base_batch_size", "batch_size"},
    "adam_beta2": {"adam_beta2", "base_batch_size", "batch_size"},
    "adam_epsilon": {"adam_epsilon", "base_batch_size", "batch_size"},
    "global_batch_size": {"batch_size", "gradient_accumulation_steps"},
}
"""Computed values that `$name` can refer to -> the fields that they depend on."""


def referenced_fields(script: Script) -> dict[str, str]:
    """Return the field whose `$field` each hyperparameter, or value in a file, contains, by the value's dotted name."""
    return {
        name: value.removeprefix(SIGN)
        for name, value in _by_dotted_name(script.hyperparameters, script.files).items()
        if isinstance(value, str) and value.startswith(SIGN) and not value.startswith(2 * SIGN)
    }


def _by_dotted_name(hyperparameters: Mapping[str, JsonValue], files: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return each hyperparameter, and each value in a file, such as `script.files.config.yaml.betas.0`."""

    def leaves(name: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        if not inner:
            yield name, value
        for key, each in inner:
            yield from leaves(f"{name}.{key}", each)

    own = {f"{HYPERPARAMETERS}{name}": value for name, value in hyperparameters.items()}
    return own | {name: value for path in files for name, value in leaves(f"{FILES}{path}", files[path])}


def script_hyperparameters(experiment: ExperimentFields) -> dict[str, JsonValue]:
    """Return the script's hyperparameters with each `$name` replaced by its value, without null.

    `$$` is a literal `$`. Text within lists and mappings stays as it is.
    """
    assert experiment.script is not None
    return {
        name: value if isinstance(value, dict | list) else _replaced(experiment, value)
        for name, value in experiment.script.hyperparameters.items()
        if value is not None
    }


def script_files(experiment: ExperimentFields) -> dict[str, JsonValue]:
    """Return the contents of the script's files by path, with each `$name` replaced."""
    assert experiment.script is not None
    return {path: _replaced(experiment, content) for path, content in experiment.script.files.items()}


def script_values(experiment: ExperimentFields) -> dict[str, JsonValue]:
    """Return the values of the script's hyperparameters and files by dotted name, with each `$name` replaced."""
    return _by_dotted_name(script_hyperparameters(experiment), script_files(experiment))


def _replaced(experiment: ExperimentFields, value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _replaced(experiment, each) for key, each in value.items()}
    if isinstance(value, list):
        return [_replaced(experiment, each) for each in value]
    if not isinstance(value, str) or not value.startswith(SIGN):
        return value
    name = value.removeprefix(SIGN)
    return name if name.startswith(SIGN) else value_of(experiment, name)


def logged_hyperparameters(experiment: ExperimentFields) -> dict[str, JsonValue]:
    """Return the values to log: one that refers to a field by the field's name, others by their own.

    `lr: $learning_rate` is logged as `learning_rate`, unless the script has another hyperparameter of this name. A
    value in a file is logged as `config.yaml.name`.
    """
    assert experiment.script is not None
    fields, values = referenced_fields(experiment.script), script_values(experiment)
    logged = {}
    for place, value in values.items():
        name = place.removeprefix(HYPERPARAMETERS).removeprefix(FILES)
        field = fields.get(place, name)
        other = HYPERPARAMETERS + field
        is_taken = "." in field or (other in values and fields.get(other) != field)
        logged[name if is_taken else field] = value
    return logged


def value_of(experiment: ExperimentFields, name: str) -> Scalar:
    """Return the value of `$name`. Settings of the optimizer are those at the global batch size."""
    derived: dict[str, Scalar] = {**asdict(experiment.optimiser), "global_batch_size": experiment.global_batch_size}
    if name in derived:
        return derived[name]
    value: object = experiment
    for part in name.split("."):
        value = getattr(value, part)
    if value is None and name == "eval_batch_size":
        return experiment.batch_size
    if value is None:
        raise ValueError(f"{SIGN}{name} has no value: {name} is not set")
    assert isinstance(value, Scalar)
    return value


def check_script(experiment: ExperimentFields) -> None:
    """Raise ValueError for an unknown `$name`, and for a field that would have no effect."""
    assert experiment.script is not None
    missing = [name for name, secret in experiment.script.secrets.items() if secret is None]
    traits = traits_of(experiment.service)
    if traits.runs_containers and missing:
        raise ValueError(
            f"script.secrets.{missing[0]} needs the name of a secret in AWS Secrets Manager on {traits.label}, because "
            "jobs do not get variables of this machine"
        )
    for name, channel in experiment.script.channels.items():
        if not traits.streams_channels and (reason := channel.needs_streams):
            raise ValueError(
                f"script.channels.{name} {reason} is not read on {traits.label}: set service to "
                f"{services_with('streams_channels')}, or download the data and name its folder"
            )
    fields = referenced_fields(experiment.script)
    for place, field in fields.items():
        if field not in referable_names():
            raise ValueError(
                f"{place} refers to {SIGN}{field}, which is not a field.{nearest(field, referable_names())}"
            )
        value_of(experiment, field)
    if experiment.compiler == "inductor" and "compiler" not in fields.values():
        raise ValueError(
            f"compiler 'inductor' would have no effect, because the script itself must compile. Pass the compiler by "
            f"script.hyperparameters, for example torch_compile_backend: {SIGN}compiler"
        )
    if target := experiment.target:
        check_script_metric(experiment, "target.metric", target.metric)
    used = set(fields.values()).union(*(DERIVED.get(field, ()) for field in fields.values()))
    for field in sorted(experiment.model_fields_set - INDEPENDENT_OF_SCRIPT - used):
        if getattr(experiment, field) is not None:
            raise ValueError(_without_effect(field))
    if used & {"base_learning_rate"} and not {"batch_size", "global_batch_size"} & set(fields.values()):
        raise ValueError(
            f"script refers to {SIGN}learning_rate, which depends on batch_size, but not to "
            f"{SIGN}batch_size: the script would train with a different batch size"
        )


def direction_of(experiment: ExperimentFields, metric: str) -> str | None:
    """Return `min` or `max`, the better values of a metric; None for a script's metric of an unknown direction."""
    script, known = experiment.script, METRICS_BY_NAME.get(metric)
    declared = script.metrics.get(metric) if script else None
    if declared and declared.better:
        return "max" if declared.better == "higher" else "min"
    if known and (script is None or known not in OWN_METRICS):
        return known.direction
    return "min" if metric.endswith(LOWER_IS_BETTER) else None


def check_script_metric(experiment: ExperimentFields, field: str, metric: str) -> None:
    """Raise ValueError for a metric that a script cannot have under this name, or whose direction is not known."""
    assert experiment.script is not None
    name = metric if metric in experiment.script.patterns else metric_name(metric)
    if name != metric:
        raise ValueError(f"{field} '{metric}' is recorded as '{name}': use that name")
    if direction_of(experiment, metric) is None:
        raise ValueError(
            f"{field} '{metric}' has no known direction: add better: higher or better: lower to script.metrics.{metric}"
        )


def _without_effect(field: str) -> str:
    if field == "data":
        return "data requires a task: a script reads its files from script.channels"
    if field in referable_names():
        referred_to_as = "learning_rate" if field in _RATE else field
        return f"{field} would have no effect: no hyperparameter or file of the script refers to {SIGN}{referred_to_as}"
    return f"{field} requires a task, but the experiment runs a script"


def referable_names() -> list[str]:
    """Return the names that can follow `$`: all fields with a single value, and the values derived from them."""
    excluded = ("description", "task", "script", "data", "target", "compare", "service", *SECTIONS)
    scalar = {str, int, float, bool, type(None)}
    plain = [name for name, kinds in known_fields().items() if kinds <= scalar and name.split(".")[0] not in excluded]
    return [*plain, *(name for name in DERIVED if name not in plain)]
