"""Rules that tie several fields, and those that this machine sets."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from experiments.schema.fields import ExperimentFields, Target
from experiments.schema.quality_metrics import BEST_POSSIBLE, TARGET_METRICS, check_metric
from experiments.schema.script_rules import check_script
from training.contract.errors import InputError


def check_fields(experiment: ExperimentFields) -> None:
    """Raise `ValueError` where fields contradict each other, whatever the machine."""
    if experiment.script is not None:
        _check_service(experiment)
        check_script(experiment)
        return
    if experiment.data is None:
        raise ValueError("data is missing")
    _check_model(experiment)
    _check_length_of_training(experiment)
    _check_buckets(experiment)
    _check_push(experiment)
    _check_service(experiment)
    _check_stride(experiment)
    _check_labels(experiment)
    _check_best(experiment)
    _check_metrics(experiment)
    _check_calibration(experiment)
    for strategy, steps in (("eval_strategy", "eval_steps"), ("save_strategy", "save_steps")):
        if getattr(experiment, strategy) == "steps" and getattr(experiment, steps) is None:
            raise ValueError(f"{strategy} steps needs {steps}: after how many steps?")
    if experiment.eval_strategy == "samples" and experiment.eval_samples is None:
        raise ValueError("eval_strategy samples needs eval_samples: after how many samples?")


def _check_model(experiment: ExperimentFields) -> None:
    if (experiment.model is None) == (experiment.model_type is None):
        given = "neither is given" if experiment.model is None else "both are given"
        raise ValueError(f"exactly one of model and model_type is needed, and {given}")
    if experiment.model_type is not None:
        _check_model_type(experiment)
    if experiment.first_weights == "pretrained":
        if experiment.model_overrides:
            raise ValueError("model_overrides goes with random weights: pretrained ones fit their own configuration")
        if experiment.tokenizer is not None:
            raise ValueError("tokenizer goes with random weights: pretrained ones were trained with their own")
    if experiment.packing is not None and experiment.task != "causal-lm":
        raise ValueError(f"packing goes with task causal-lm; the task is {experiment.task}")


def _check_model_type(experiment: ExperimentFields) -> None:
    name = experiment.model_type
    if experiment.weights == "pretrained":
        raise ValueError(f"weights must be random with model_type {name!r}: an architecture alone has none")
    if experiment.model_revision is not None:
        raise ValueError(f"model_revision goes with a model of the Hub, not with model_type {name!r}")
    if experiment.tokenizer is None:
        raise ValueError(f"tokenizer is needed with model_type {name!r}: an architecture alone has none")


def _check_length_of_training(experiment: ExperimentFields) -> None:
    if experiment.epochs is None and experiment.max_steps is None:
        raise ValueError("one of epochs and max_steps is needed, and neither is given")
    if experiment.epochs is not None and experiment.max_steps is not None:
        raise ValueError(f"epochs {experiment.epochs:g} and max_steps {experiment.max_steps} exclude each other")


def _check_buckets(experiment: ExperimentFields) -> None:
    for shorter, longer in pairwise(experiment.bucket_lengths or ()):
        if shorter >= longer:
            raise ValueError(f"bucket_lengths must ascend, and {longer} follows {shorter}")


def _check_calibration(experiment: ExperimentFields) -> None:
    if experiment.calibration is None:
        return
    for smaller, larger in pairwise(experiment.calibration.batch_sizes):
        if smaller >= larger:
            raise ValueError(f"calibration.batch_sizes must ascend, and {larger} follows {smaller}")
    for name in ("probe", "push_to_hub"):
        if getattr(experiment, name) is not None:
            raise ValueError(f"calibration and {name} exclude each other: a calibration trains nothing")
    if experiment.machine.model_parallel:
        raise ValueError("calibration and machine.model_parallel exclude each other: its steps are the library's own")


def _check_best(experiment: ExperimentFields) -> None:
    if experiment.best_metric is None:
        return
    evaluates = _cadence(*experiment.evaluation)
    saves = _cadence(experiment.save_strategy, experiment.save_steps)
    if evaluates != saves:
        raise ValueError(
            f"best_metric {experiment.best_metric!r} needs a checkpoint after every evaluation: the job evaluates "
            f"{evaluates} and saves {saves}"
        )


def _cadence(strategy: str, steps: int | None) -> str:
    words = {"end": "at the end", "none": "never", "epoch": "every epoch", "steps": f"every {steps} steps"}
    return words[strategy]


def _check_metrics(experiment: ExperimentFields) -> None:
    if experiment.target is not None:
        check_metric("target.metric", experiment.target.metric, experiment.task)
        _check_reachable(experiment.target)
    if experiment.best_metric is not None:
        check_metric("best_metric", experiment.best_metric, experiment.task)


def _check_reachable(target: Target) -> None:
    best, lower_is_better = BEST_POSSIBLE[target.metric], TARGET_METRICS[target.metric] == "min"
    if (target.direction or TARGET_METRICS[target.metric]) != TARGET_METRICS[target.metric]:
        return  # a value to fall to, against what the metric means: whoever says so knows why
    if target.value < best if lower_is_better else target.value > best:
        raise ValueError(f"target.value {target.value:g} cannot be reached: {target.metric} is at best {best:g}")


def _check_stride(experiment: ExperimentFields) -> None:
    if experiment.task == "question-answering" and experiment.doc_stride >= experiment.max_length:
        raise ValueError(
            f"doc_stride {experiment.doc_stride} must be smaller than max_length {experiment.max_length}: windows that "
            f"share so much do not move on"
        )


def _check_labels(experiment: ExperimentFields) -> None:
    for name in ("labels", "label_map", "skip_labels"):
        if experiment.task != "classification" and getattr(experiment.data, name) is not None:
            raise ValueError(f"data.{name} goes with task classification; {experiment.task} has no labels")


def _check_push(experiment: ExperimentFields) -> None:
    push = experiment.push_to_hub
    if push is None:
        return
    if not experiment.save_model:
        raise ValueError("push_to_hub needs the trained model, and save_model is false")
    if experiment.service == "sagemaker" and push.token_secret is None:
        raise ValueError("push_to_hub.token_secret is needed on SageMaker: no variable of this machine reaches a job")
    if push.token_variable.upper().startswith(("SM_", "SAGEMAKER_", "TRAINFARE_")):
        raise ValueError(f"push_to_hub.token_variable {push.token_variable!r} is a name that jobs are told by")


SAGEMAKER_ALONE = (
    *("fallback_instance_types", "launcher", "mpi_options", "model_parallel", "spot", "max_wait_seconds"),
    *("keep_alive_seconds", "image"),
)
"""Fields of `machine` that mean nothing on this machine."""
LOCAL_ALONE = ("cores", "memory_gib")


def _check_service(experiment: ExperimentFields) -> None:
    _check_compiler_debug(experiment)
    if experiment.service == "sagemaker":
        _check_sagemaker(experiment)
        return
    for name in SAGEMAKER_ALONE:
        if getattr(experiment.machine, name):
            raise ValueError(f"machine.{name} goes with service 'sagemaker'; the service is 'local'")
    if experiment.compiler in {"trcomp", "trcomp-off"}:
        raise ValueError(
            f"compiler {experiment.compiler!r} does not run on the local service: it is part of SageMaker's Training "
            f"Compiler images and runs there; 'inductor' compiles here"
        )
    machine = experiment.machine
    if machine.instance_type != "local":
        raise ValueError(f"machine.instance_type {machine.instance_type!r} must be 'local' on the local service")
    if machine.instance_count != 1:
        raise ValueError(f"machine.instance_count {machine.instance_count} must be 1: the local service is one machine")


def _check_compiler_debug(experiment: ExperimentFields) -> None:
    if experiment.compiler_debug and experiment.compiler != "trcomp":
        raise ValueError(f"compiler_debug goes with compiler 'trcomp'; the compiler is {experiment.compiler!r}")


def _check_sagemaker(experiment: ExperimentFields) -> None:
    """Rules that SageMaker's own come after: see training.services.sagemaker.sdk_rules."""
    machine = experiment.machine
    if machine.instance_type == "local":
        raise ValueError("machine.instance_type is 'local', and service 'sagemaker' needs one such as ml.g5.xlarge")
    for name in LOCAL_ALONE:
        if getattr(machine, name) is not None:
            raise ValueError(f"machine.{name} goes with service 'local': at SageMaker the instance type says it")
    begins_again = experiment.script is not None or experiment.calibration is not None
    if machine.spot and not begins_again and experiment.save_strategy == "none":
        raise ValueError("machine.spot needs checkpoints to go on from, and save_strategy is none")


@dataclass(frozen=True, kw_only=True)
class Here:
    """What this machine has."""

    cores: int
    """Processor cores that this process may use."""
    has_gpu: bool
    """Whether an NVIDIA GPU is visible."""
    cxx: str
    """The C++ compiler that `torch.compile` calls on a processor."""
    has_cxx: bool
    """Whether it is installed."""


def this_machine() -> Here:
    """Look at this machine, without importing torch."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cxx = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    has_gpu = any(Path("/dev").glob("nvidia[0-9]*"))
    return Here(cores=cores, has_gpu=has_gpu, cxx=cxx, has_cxx=shutil.which(cxx) is not None)


def check_machine(experiment: ExperimentFields, here: Here) -> None:
    """Refuse what the local service cannot run on this machine."""
    if experiment.service != "local":
        return
    cores = experiment.machine.cores
    if cores is not None and cores > here.cores:
        raise InputError(f"machine.cores is {cores}, but this machine has {here.cores}")
    if experiment.precision == "fp16" and not here.has_gpu:
        raise InputError("precision 'fp16' needs a GPU, and this machine has none; 'auto', 'bf16' and 'fp32' run here")
    if experiment.compiler == "inductor" and not here.has_gpu and not here.has_cxx:
        raise InputError(
            f"compiler 'inductor' needs a C++ compiler on a processor, and {here.cxx!r} is not installed: install g++ "
            f"(Debian and Ubuntu: apt-get install g++) or set CXX"
        )
