"""Rules of the compilers, beside those of SageMaker in `training.services.sagemaker.sdk_rules`."""

from __future__ import annotations

from experiments.schema.fields import ExperimentFields

OPTIONS = {
    "compiler_debug": "trcomp",
    "compile_scope": "inductor",
    "compile_mode": "inductor",
    "compile_dynamic": "inductor",
}
"""Options of one compiler -> that compiler."""


def check_options(experiment: ExperimentFields) -> None:
    """Raise `ValueError` for an option of a compiler that the experiment does not use."""
    for name, compiler in OPTIONS.items():
        value = getattr(experiment, name)
        if value == ExperimentFields.model_fields[name].default or experiment.compiler == compiler:
            continue
        raise ValueError(f"{name} requires compiler {compiler!r}; the compiler is {experiment.compiler!r}")


def check_xla(experiment: ExperimentFields) -> None:
    """Raise `ValueError` for a field that needs an NVIDIA GPU without XLA, under a compiler that trains through XLA."""
    if experiment.compiler not in {"trcomp", "neuron"}:
        return
    for name, value, others in (("precision", "fp8", "'bf16'"), ("kernels", "liger", "'torch'")):
        if getattr(experiment, name) == value:
            raise ValueError(f"compiler {experiment.compiler!r} cannot use {name} {value!r}: use {others}")
    _check_neuron(experiment)


def _check_neuron(experiment: ExperimentFields) -> None:
    """Raise `ValueError` for a field that does not fit Trainium.

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
