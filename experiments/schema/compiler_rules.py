"""Rules of compilers, sharding and padding `none`. SageMaker's are in `training.services.sagemaker.job_rules`."""

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


def check_padding_free(experiment: ExperimentFields) -> None:
    """Raise `ValueError` for a field that does not fit padding `none`."""
    if experiment.padding != "none":
        return
    if experiment.compiler != "none":
        raise ValueError(
            f"padding 'none' and compiler {experiment.compiler!r} cannot be combined: the number of tokens changes at "
            f"every step. Use compiler 'none', or padding 'auto'"
        )
    if experiment.attention != "auto":
        raise ValueError(
            f"padding 'none' needs attention 'auto', not {experiment.attention!r}: it has its own implementation"
        )
    if experiment.machine.model_parallel:
        raise ValueError("padding 'none' and machine.model_parallel cannot be combined: the library splits the layers")


def check_xla(experiment: ExperimentFields) -> None:
    """Raise `ValueError` for a field that needs an NVIDIA GPU without XLA, under a compiler that trains through XLA."""
    if experiment.compiler != "trcomp":
        return
    for name, value, others in (("precision", "fp8", "'bf16'"), ("kernels", "liger", "'torch'")):
        if getattr(experiment, name) == value:
            raise ValueError(f"compiler 'trcomp' cannot use {name} {value!r}: use {others}")


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


CHECKS = (check_xla, check_sharding, check_padding_free)
"""Checks of a task's training. `check_options` also applies to scripts."""
