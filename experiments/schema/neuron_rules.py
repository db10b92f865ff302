"""Rules of our own tasks on Trainium, beside those of SageMaker in `training.services.sagemaker.sdk_rules`.

Neuron compiles a program for each shape, which takes minutes for a BERT. So shapes must be few, and known in advance
(AWS Neuron documentation, "Developer Guide for Training with PyTorch NeuronX").
"""

from __future__ import annotations

from experiments.schema.fields import ExperimentFields


def check_neuron(experiment: ExperimentFields) -> None:
    """Raise `ValueError` for a field that does not fit the compiler `neuron`."""
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
