"""Experiment: all fields, checked by the rules between them, and by the limits of this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pydantic import model_validator

from experiments.schema.fields import ExperimentFields, Target, check_metric
from experiments.schema.machine_fields import Machine, check_group_budget
from experiments.schema.script_rules import check_script
from training.contract.errors import InputError
from training.contract.job_spec import NOT_CHOSEN
from training.contract.request import TRAINING_COMPILER
from training.job.settings.declared import SHARDING_SINCE, contradictions, unused_options
from training.job.tasks import METRICS_BY_NAME, TASKS
from training.services.registry import SERVICES, traits_of

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
    broken: dict[str, None] = {}
    for check in _checks(experiment):
        try:
            check(experiment)
        except ValueError as error:
            broken[str(error)] = None
    if experiment.script is not None:
        broken |= dict.fromkeys(unused_options(experiment))
    elif experiment.data is not None:
        broken |= dict.fromkeys(contradictions(experiment, experiment.evaluation))
    return list(broken)


def _checks(experiment: ExperimentFields) -> tuple[Check, ...]:
    """Return the checks that apply, each of which raises `ValueError`."""
    if experiment.script is not None:
        return (_check_order, _check_service, check_script)
    if experiment.data is None:
        return (_check_order, _check_data)
    return (
        *(_check_order, _check_model, _check_learning_rates, _check_push, _check_service, _check_sharding),
        *(_check_padding_free, _check_task_options, _check_labels, _check_metrics, _check_calibration, _check_cadences),
    )


def _check_order(experiment: ExperimentFields) -> None:
    _check_ascending("compare.looks", experiment.compare.looks)
    _check_ascending("bucket_lengths", experiment.bucket_lengths or ())


def _check_data(_: ExperimentFields) -> None:
    raise ValueError("data is missing")


def _check_model(experiment: ExperimentFields) -> None:
    if (experiment.model is None) == (experiment.model_type is None):
        problem = "neither is set" if experiment.model is None else "both are set"
        raise ValueError(f"exactly one of model and model_type is required, but {problem}")
    if experiment.model_type is not None:
        _check_model_type(experiment)
    if experiment.first_weights == "pretrained":
        if experiment.model_overrides:
            raise ValueError(
                "model_overrides requires weights: random, because pretrained weights fit only their own configuration"
            )
        if experiment.tokenizer is not None:
            raise ValueError(
                "tokenizer requires weights: random, because pretrained weights fit only their own tokenizer"
            )


def _check_model_type(experiment: ExperimentFields) -> None:
    name = experiment.model_type
    if experiment.weights == "pretrained":
        raise ValueError(
            f"weights must be 'random' if model_type is set: architecture {name!r} has no pretrained weights"
        )
    if experiment.model_revision is not None:
        raise ValueError(f"model_revision requires a model of the Hub, not model_type {name!r}")
    if experiment.tokenizer is None:
        raise ValueError(f"tokenizer is required with model_type {name!r}: an architecture has no tokenizer of its own")


def _check_learning_rates(experiment: ExperimentFields) -> None:
    for name in ("base_learning_rate", "max_learning_rate"):
        rate = getattr(experiment, name)
        if rate is not None and rate > MAX_TASK_LEARNING_RATE:
            raise ValueError(f"{name} must be at most {MAX_TASK_LEARNING_RATE:g} for a task, not {rate:g}")


def _check_ascending(name: str, values: Sequence[int]) -> None:
    for first, second in pairwise(values):
        if first >= second:
            raise ValueError(f"{name} must be ascending, but {second} follows {first}")


def _check_push(experiment: ExperimentFields) -> None:
    if experiment.push_to_hub is not None and not experiment.save_model:
        raise ValueError("push_to_hub needs the trained model, but save_model is false")


def _check_service(experiment: ExperimentFields) -> None:
    """Check our own rules. The service's rules follow when it is opened."""
    if experiment.compiler_debug and experiment.compiler != "trcomp":
        raise ValueError(f"compiler_debug requires compiler 'trcomp'; the compiler is {experiment.compiler!r}")
    traits, machine = traits_of(experiment.service), experiment.machine
    own, service = traits.instance_type, f"the {traits.name} service"
    if own is None and machine.instance_type == NOT_CHOSEN:
        needs = f"service {traits.name!r} needs one such as ml.g5.xlarge"
        raise ValueError(f"machine.instance_type is {NOT_CHOSEN!r}, but {needs}")
    fields = {name: other for other, room in SERVICES.items() for name in room.TRAITS.machine_fields}
    for name in fields:
        is_foreign = name not in traits.machine_fields
        if is_foreign and getattr(machine, name) != Machine.model_fields[name].get_default(call_default_factory=True):
            raise ValueError(f"machine.{name} requires service {fields[name]!r}; the service is {traits.name!r}")
    if experiment.compiler in TRAINING_COMPILER and not traits.has_training_compiler:
        raise ValueError(
            f"compiler {experiment.compiler!r} does not run on {traits.label}: it exists only in SageMaker's Training "
            "Compiler images. To compile here, use 'inductor'"
        )
    if own is not None and machine.instance_type not in (own, NOT_CHOSEN):
        raise ValueError(f"machine.instance_type {machine.instance_type!r} must be {own!r} on {service}")
    if traits.is_one_machine and machine.instance_count != 1:
        raise ValueError(f"machine.instance_count {machine.instance_count} must be 1: {service} is one machine")
    restarts = experiment.script is not None or experiment.calibration is not None
    if machine.spot and not restarts and experiment.save_strategy == "none":
        raise ValueError("machine.spot needs checkpoints to resume from, but save_strategy is none")
    if traits.reads_aws:
        check_group_budget(experiment.aws.request, experiment.max_usd, experiment.max_billable_seconds)


def _check_sharding(experiment: ExperimentFields) -> None:
    """The job checks its version of torch, and `contradictions` the other settings."""
    if experiment.sharding == "none":
        return
    machine = experiment.machine
    if machine.launcher in ("smddp", "smp", "xla"):
        raise ValueError(
            f"sharding 'fsdp2' needs machine.launcher 'torchrun' or 'pytorchddp', not {machine.launcher!r}"
        )
    version = machine.image.versions().get("pytorch", "") if machine.image else ""
    if "." in version and tuple(int(part) for part in version.split(".")[:2]) < SHARDING_SINCE:
        raise ValueError(f"sharding 'fsdp2' needs torch 2.6 or later, but machine.image.pytorch is {version}")
    if experiment.calibration is not None and machine.devices * machine.instance_count > 1:
        raise ValueError(
            "calibration and sharding 'fsdp2' cannot be combined on several devices: a calibration takes steps on one "
            "device at a time"
        )


def _check_padding_free(experiment: ExperimentFields) -> None:
    if experiment.padding == "none" and experiment.machine.model_parallel:
        raise ValueError("padding 'none' and machine.model_parallel cannot be combined: the library splits the layers")


def _check_task_options(experiment: ExperimentFields) -> None:
    for task in TASKS.values():
        for name, option in task.options.items() if task.name != experiment.task else ():
            if option.requires_task and getattr(experiment, name) is not None:
                raise ValueError(f"{name} requires task {task.name}; the task is {experiment.task}")
    TASKS[experiment.task].check_options(experiment)


def _check_labels(experiment: ExperimentFields) -> None:
    if TASKS[experiment.task].has_classes:
        return
    for name in ("labels", "label_map", "skip_labels"):
        if getattr(experiment.data, name) is not None:
            with_classes = " or ".join(task.name for task in TASKS.values() if task.has_classes)
            raise ValueError(f"data.{name} requires task {with_classes}; {experiment.task} has no labels")


def _check_metrics(experiment: ExperimentFields) -> None:
    if experiment.target is not None:
        check_metric("target.metric", experiment.target.metric, experiment.task)
        _check_reachable(experiment.target)
    if experiment.best_metric is not None:
        check_metric("best_metric", experiment.best_metric, experiment.task)


def _check_reachable(target: Target) -> None:
    best, direction = METRICS_BY_NAME[target.metric].best, METRICS_BY_NAME[target.metric].direction
    if target.direction not in (None, direction):
        return  # the experiment sets the opposite direction on purpose
    if target.value < best if direction == "min" else target.value > best:
        raise ValueError(f"target.value {target.value:g} cannot be reached: {target.metric} is at best {best:g}")


def _check_calibration(experiment: ExperimentFields) -> None:
    if experiment.calibration is None:
        return
    _check_ascending("calibration.batch_sizes", experiment.calibration.batch_sizes)
    for name in ("probe", "push_to_hub"):
        if getattr(experiment, name) is not None:
            raise ValueError(f"calibration and {name} cannot be combined: a calibration trains nothing")
    if experiment.machine.model_parallel:
        raise ValueError("calibration and machine.model_parallel cannot be combined: the library runs its own steps")


def _check_cadences(experiment: ExperimentFields) -> None:
    if experiment.eval_strategy == "samples" and experiment.eval_samples is None:
        raise ValueError("eval_strategy 'samples' requires eval_samples, the number of samples in between")


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
    if experiment.compiler == "inductor" and not machine.has_gpu and not machine.has_cxx:
        raise InputError(
            f"compiler 'inductor' needs a C++ compiler on a CPU, but {machine.cxx!r} is not installed: install g++ "
            f"(Debian and Ubuntu: apt-get install g++) or set CXX"
        )
