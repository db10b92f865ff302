"""Rules of the compilers and of padding `none`. SageMaker's are in `training.services.sagemaker.sdk_rules`."""

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
