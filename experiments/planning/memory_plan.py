"""Memory of planned jobs: the estimate, the device's memory, and the peaks that earlier jobs measured."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from experiments.planning.inputs import Inputs
from experiments.planning.memory import GIB, Batch, Memory, Shape, estimate, shape_of
from experiments.schema.experiment import Experiment, this_machine
from tracking.groups.planned_job import BEFORE_TRAININGS, PlannedJob
from tracking.recorded.recorded_job import Job
from training.contract.errors import InputError
from training.contract.plain_text import counted, size_text
from training.job.tasks import TASKS
from training.services.registry import traits_of
from training.services.sagemaker.machines import accelerators, is_gpu
from training.services.supervision.toolkit import local_path
from training.staging.models.model_files import read_config
from training.staging.tokens.staged import MODEL, Staged

Values = Callable[[str], Any]
"""Returns a hyperparameter of a job by its name; None if the job has none."""


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """Estimated memory of a job on each device."""

    memory: Memory
    """With the smallest batch size, if there are several to choose from."""
    device: str
    """Name of the device, such as `an A10G GPU`."""
    device_bytes: float | None
    """Memory of the device; None if it is unknown."""
    errors: tuple[float, ...]
    """For each earlier training of the model on this type of machine: the estimate over the measured peak, less 1."""

    @property
    def fits(self) -> bool | None:
        """False if the estimate exceeds the device's memory; None if that is unknown."""
        return None if self.device_bytes is None else self.memory.peak <= self.device_bytes


def memory_of(
    job: PlannedJob, experiment: Experiment, inputs: Inputs, earlier: Sequence[Job] = ()
) -> MemoryPlan | None:
    """Return the memory of a job; None for scripts, and for models that cannot be estimated."""
    if not isinstance(inputs, Staged):
        return None
    shape = _shape(experiment, inputs)
    if shape is None:
        return None
    device, limit, on_gpu = _device(experiment, job.spec.instance_type)
    return MemoryPlan(
        memory=estimate(shape, batch_of(job.spec.hyperparameters.get, experiment, inputs, on_gpu=on_gpu)),
        device=device,
        device_bytes=limit,
        errors=tuple(_errors(job, experiment, inputs, shape, earlier)),
    )


def check_memory(job: PlannedJob, experiment: Experiment, inputs: Inputs) -> None:
    """Raise InputError for a job whose weights, gradients and optimizer states alone exceed the memory of its GPU."""
    plan = memory_of(job, experiment, inputs)
    if plan is None or plan.device_bytes is None or plan.memory.held <= plan.device_bytes:
        return
    parameters, held = f"{plan.memory.parameters:,}", size_text(plan.memory.held)
    raise InputError(
        f'arm "{job.arm}" cannot fit: its {parameters} parameters take {held} with gradients and AdamW\'s states, and '
        f"{plan.device} has {size_text(plan.device_bytes)}: set adapter, set sharding with more machine.devices, or "
        "choose an instance type with more memory"
    )


def _shape(experiment: Experiment, inputs: Staged) -> Shape | None:
    folder = inputs.channels.get(MODEL, "")
    file = local_path(folder) / "config.json" if folder.startswith(("file://", "/")) else None
    if file is None and experiment.model and not folder:
        from huggingface_hub import try_to_load_from_cache

        revision = experiment.model_revision or "main"
        cached = try_to_load_from_cache(experiment.model, "config.json", revision=revision)
        file = Path(cached) if isinstance(cached, str) else None
    if file is None or not file.is_file():
        return None
    labels = len(inputs.description.label_names) or 2
    return shape_of(read_config(file.parent), TASKS[experiment.task].head, labels)


def batch_of(values: Values, experiment: Experiment, inputs: Staged, *, on_gpu: bool) -> Batch:
    """Return what a job with these hyperparameters computes at once."""
    most, longest = int(values("max_length") or experiment.max_length), inputs.lengths.max_tokens
    is_whole = values("padding") == "max_length" or inputs.sample_rows is not None or longest >= experiment.max_length
    precision = values("precision")
    is_16_bit = precision in ("bf16", "fp16", "fp8") or (precision in (None, "auto") and (on_gpu or _has_bf16()))
    dropout, task, data = values("adapter_dropout"), TASKS[experiment.task], experiment.data
    # A model without a head embeds each text of a row by itself.
    kinds = task.columns(data.columns).values() if data and task.head == "AutoModel" else ["string"]
    return Batch(
        rows=int(values("batch_size")) * sum(each == "string" for each in kinds),
        length=most if is_whole else min(most, longest),
        target_length=int(getattr(experiment, "max_target_length", None) or most),
        on_gpu=on_gpu,
        is_16_bit=is_16_bit,
        attention=str(values("attention") or "auto"),
        has_fused_loss=values("kernels") == "liger",
        accumulates=int(values("gradient_accumulation_steps") or 1) > 1,
        adapter=str(values("adapter_method") or ""),
        adapter_rank=int(values("adapter_rank") or 0),
        adapter_dropout=float(dropout) if dropout is not None else 0.05,
        replicas=experiment.machine.devices * experiment.machine.instance_count,
        is_sharded=values("sharding") == "fsdp2",
    )


def _has_bf16() -> bool:
    """Return whether `precision: auto` is bf16 on this CPU, as in training/job/measuring/hardware.py."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "amx_bf16" in text or ("AuthenticAMD" in text and "avx512_bf16" in text)


def _device(experiment: Experiment, instance_type: str) -> tuple[str, float | None, bool]:
    """Return the name of the device that the jobs train on, its memory in bytes, and whether it is a GPU."""
    machine, traits = experiment.machine, traits_of(experiment.service)
    if not traits.runs_here and traits.section and traits.instance_type:
        return f"a node {instance_type}", None, bool(getattr(experiment, traits.section).gpu)
    if not traits.runs_here:
        found = accelerators(machine.instance_type)
        if found is None:
            return f"an instance {machine.instance_type}", None, is_gpu(machine.instance_type)
        memory = found.memory_mib and found.memory_mib * 2.0**20
        return f"the {found.name} GPU of {machine.instance_type}", memory or None, True
    if this_machine().has_gpu:
        return "this machine's GPU", local_gpu_bytes(), True
    limit = machine.memory_gib * GIB if machine.memory_gib else psutil.virtual_memory().total / machine.devices
    return "machine.memory_gib" if machine.memory_gib else "this machine", limit, False


def local_gpu_bytes() -> float | None:
    """Return the memory of the smallest GPU here; None if nvidia-smi does not report it."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    return min((int(line) * 2.0**20 for line in lines if line.isdecimal()), default=None)


def _errors(
    job: PlannedJob, experiment: Experiment, inputs: Staged, shape: Shape, earlier: Sequence[Job]
) -> list[float]:
    """Return the errors of the estimates for the earlier trainings of this model, with their own settings."""
    errors = []
    for each in earlier:
        recorded = partial(_recorded, each)
        is_same = recorded("model") == job.spec.hyperparameters.get("model") and not each.is_script
        is_same &= experiment.first_weights == "pretrained" or each.text.get("data_key") == job.data_key
        is_training = each.succeeded and each.text.get("role") not in BEFORE_TRAININGS
        if not (is_same and is_training and recorded("batch_size")):
            continue
        allocated, resident = each.number("memory_peak_allocated_gib"), each.number("memory_peak_resident_gib")
        memory = estimate(shape, batch_of(recorded, experiment, inputs, on_gpu=allocated > 0))
        if allocated > 0:
            errors.append((memory.peak - memory.process) / (allocated * GIB) - 1)
        elif resident > 0:
            errors.append(memory.peak / (resident * GIB) - 1)
    return errors


def _recorded(job: Job, name: str) -> Any:
    """Return a hyperparameter as an earlier job recorded it; None if it did not."""
    number = job.number(f"hp_{name}")
    return job.text.get(f"hp_{name}") if math.isnan(number) else number


PARTS = ("weights", "gradients", "optimizer", "activations")


def memory_text(plan: MemoryPlan) -> str:
    """Return the estimate in a sentence, with its parts and how far it was off."""
    parts = ", ".join(f"{name} {size_text(getattr(plan.memory, name))}" for name in PARTS)
    limit = "" if plan.device_bytes is None else f" of {size_text(plan.device_bytes)}"
    checked = "not checked against a training yet"
    if plan.errors:
        percent, count = 100 * median(plan.errors), len(plan.errors)
        side, peaks = "above" if percent >= 0 else "below", "peak" if count == 1 else "peaks"
        trainings = counted(count, "training")
        checked = f"the estimate was {abs(percent):.0f} % {side} the measured {peaks} of {trainings} here"
    return f"{size_text(plan.memory.peak)}{limit} on {plan.device} ({parts}); {checked}"


def memory_warning(plan: MemoryPlan) -> str:
    """Return a warning about a job that may not fit, or an empty text."""
    if plan.device_bytes is None or plan.fits:
        return ""
    return (
        f"the estimate of {size_text(plan.memory.peak)} exceeds the {size_text(plan.device_bytes)} of {plan.device}: "
        "lower batch_size and raise gradient_accumulation_steps, lower max_length, or set adapter"
    )


def memory_fields(plan: MemoryPlan) -> Mapping[str, Any]:
    """Return the estimate for JSON, in bytes."""
    return {"peak_bytes": plan.memory.peak, "fits": plan.fits, **asdict(plan)}
