"""Rules and notes on the GPUs or Neuron cores of a job's instance types. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from training.contract.errors import InputError
from training.contract.job_spec import JobSpec
from training.contract.request import launcher_of
from training.services.sagemaker.instance_types import accelerators, described, device_count, is_known, source

WITHOUT_8_BITS = frozenset({"T4", "T4g", "V100", "A10G", "A100"})
"""GPUs below compute capability 8.9, whose tensor cores do not multiply in 8-bit floating point."""


def check_devices(spec: JobSpec) -> None:
    """Raise InputError if `devices` is not the number of devices, or would not be on a fallback type.

    SageMaker's launchers start a process on each device. With any other number, the batch size and the learning rate
    would not be those of the experiment.
    """
    count = device_count(spec.instance_type)
    launcher = launcher_of(spec)
    if count is not None and launcher is not None and spec.devices != count:
        raise InputError(
            f"machine.devices is {spec.devices}, but {spec.instance_type} has {_counted(spec.instance_type)}, and "
            f"launcher '{launcher}' starts one process on each."
        )
    for fallback in spec.fallback_instance_types:
        if count is None or device_count(fallback) != count:
            raise InputError(
                f"machine.fallback_instance_types has {fallback} ({described(fallback)}), but machine.instance_type is "
                f"{spec.instance_type} ({described(spec.instance_type)}): a fallback must have as many devices, "
                f"because batch size and learning rate are planned for them."
            )


def check_settings(spec: JobSpec) -> None:
    """Raise InputError if our own job has a setting that the GPUs of one of its instance types do not support."""
    if spec.is_script:
        return
    for each in (spec.instance_type, *spec.fallback_instance_types):
        devices = accelerators(each)
        has_gpu = not is_known(each) or (devices is not None and devices.kind == "gpu")
        has_8_bits = has_gpu and (devices is None or devices.name not in WITHOUT_8_BITS)
        if spec.hyperparameters.get("precision") == "fp8" and not has_8_bits:
            raise InputError(
                f"precision 'fp8' needs GPUs of compute capability 8.9 or higher, such as L4, L40S and H100, but "
                f"{each} has {described(each)}: use precision 'bf16'"
            )
        if spec.hyperparameters.get("kernels") == "liger" and not has_gpu:
            raise InputError(f"kernels 'liger' needs an NVIDIA GPU, but {each} has {described(each)}: use 'torch'")
        if spec.hyperparameters.get("attention") == "blockwise" and devices is not None:
            raise InputError(f"attention 'blockwise' is for CPUs, but {each} has {described(each)}: use 'auto'")


def device_notes(spec: JobSpec) -> Iterator[str]:
    """Yield warnings about idle devices, and about instance types whose number of devices is unknown."""
    count = device_count(spec.instance_type)
    if not is_known(spec.instance_type):
        yield (
            f"the number of GPUs of {spec.instance_type} is unknown (it is not in the table: {source()}), so "
            f"machine.devices {spec.devices} was not compared with it."
        )
    elif count is not None and spec.devices < count:
        idle = count - spec.devices
        yield (
            f"machine.devices is {spec.devices}, but {spec.instance_type} has {_counted(spec.instance_type)}: "
            f"{idle} {'is' if idle == 1 else 'are'} idle and billed nevertheless; set machine.devices to {count}, or "
            f"choose a smaller instance type."
        )


def _counted(instance_type: str) -> str:
    """Return the number of devices with their noun, such as `4 GPUs`."""
    devices, count = accelerators(instance_type), device_count(instance_type) or 0
    noun = "Neuron core" if devices and devices.kind == "neuron" else "GPU"
    return f"{count} {noun}{'' if count == 1 else 's'}"
