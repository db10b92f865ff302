"""Rules of the compilers and of sharding, beside those of SageMaker in `training.services.sagemaker.sdk_rules`."""

from __future__ import annotations

from experiments.schema.fields import ExperimentFields

OPTIONS = {
    "compiler_debug": "trcomp",
    "compile_scope": "inductor",
    "compile_mode": "inductor",
    "compile_dynamic": "inductor",
}
"""Options of one compiler -> that compiler."""

CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune")
"""Modes of inductor that record CUDA graphs."""
SHARDING_SINCE = (2, 6)
"""First version of torch with `fully_shard`."""


def check_options(experiment: ExperimentFields) -> None:
    """Raise `ValueError` for an option of a compiler that the experiment does not use."""
    for name, compiler in OPTIONS.items():
        value = getattr(experiment, name)
        if value == ExperimentFields.model_fields[name].default or experiment.compiler == compiler:
            continue
        raise ValueError(f"{name} requires compiler {compiler!r}; the compiler is {experiment.compiler!r}")


def check_neuron(experiment: ExperimentFields) -> None:
    """Raise `ValueError` for a field that does not fit the compiler `neuron`.

    Neuron compiles a program for each shape, which takes minutes for a BERT. So shapes must be few, and known in
    advance (AWS Neuron documentation, "Developer Guide for Training with PyTorch NeuronX").
    """
    if experiment.compiler != "neuron":
        return
    if experiment.padding == "longest":
        raise ValueError(
            "compiler 'neuron' needs padding 'max_length' or 'buckets', not 'longest': it would compile a program for "
            "each length"
        )
    if experiment.precision == "fp16":
        raise ValueError("compiler 'neuron' needs precision 'bf16', 'fp32' or 'auto', which is bf16, not 'fp16'")
    if experiment.attention == "flash_attention_2":
        raise ValueError("compiler 'neuron' needs attention 'eager', 'sdpa' or 'auto', not 'flash_attention_2'")
    if experiment.calibration is not None:
        raise ValueError("calibration and compiler 'neuron' cannot be combined: each batch size would be compiled")


def check_sharding(experiment: ExperimentFields) -> None:
    """Raise `ValueError` for a field that does not fit `sharding`. The job checks its version of torch."""
    if experiment.sharding == "none":
        return
    if experiment.compiler not in ("none", "inductor"):
        raise ValueError(f"sharding 'fsdp2' needs compiler 'none' or 'inductor', not {experiment.compiler!r}")
    if experiment.compile_scope != "layers":
        raise ValueError(f"sharding 'fsdp2' needs compile_scope 'layers', not {experiment.compile_scope!r}")
    if experiment.compile_mode in CUDA_GRAPH_MODES:
        raise ValueError(
            f"sharding 'fsdp2' does not work with compile_mode {experiment.compile_mode!r}, which records CUDA graphs: "
            "use 'default' or 'max-autotune-no-cudagraphs'"
        )
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
