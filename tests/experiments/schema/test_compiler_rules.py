"""Fields that do not fit the compiler, and options of another compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.planning.hyperparameters import hyperparameters
from experiments.planning.load import load
from training.contract.errors import InputError

TRN1 = {"service": "sagemaker", "machine.instance_type": "ml.trn1.2xlarge", "machine.devices": "2"}
TRN1 |= {"compiler": "neuron", "padding": "max_length"}
GPUS = {"service": "sagemaker", "machine.instance_type": "ml.p4d.24xlarge", "machine.devices": "8"}


@pytest.mark.parametrize(
    "fields",
    [{}, {"padding": "buckets"}, {"precision": "bf16"}, {"precision": "fp32"}, {"attention": "sdpa"}],
)
def test_fields_with_few_shapes_pass(fields: dict[str, str]) -> None:
    assert load("demo", {**TRN1, **fields}).compiler == "neuron"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"padding": "longest"}, "compiler 'neuron' needs padding 'max_length' or 'buckets', not 'longest'"),
        ({"precision": "fp16"}, "needs precision 'bf16', 'fp32' or 'auto', which is bf16, not 'fp16'"),
        ({"attention": "blockwise"}, "needs attention 'eager', 'sdpa' or 'auto', not 'blockwise'"),
        ({"attention": "flash_attention_2"}, "needs attention 'eager', 'sdpa' or 'auto', not 'flash_attention_2'"),
        ({"precision": "fp8"}, "compiler 'neuron' cannot use precision 'fp8': use 'bf16'"),
        ({"kernels": "liger"}, "compiler 'neuron' cannot use kernels 'liger': use 'torch'"),
        ({"calibration.batch_sizes": "8,16"}, "calibration and compiler 'neuron' cannot be combined"),
        (
            {"service": "local", "machine.instance_type": "local"},
            "compiler 'neuron' does not run on the local service: it needs a Trainium instance",
        ),
    ],
)
def test_other_fields_are_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        load("demo", {**TRN1, **fields})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"compiler": "inductor"}, "padding 'none' and compiler 'inductor' cannot be combined: the number of tokens"),
        ({"attention": "sdpa"}, "padding 'none' needs attention 'auto', not 'sdpa'"),
        ({**TRN1, "padding": "none"}, "padding 'none' and compiler 'neuron' cannot be combined"),
    ],
)
def test_fields_that_do_not_fit_padding_none_are_refused(fields: dict[str, str], message: str) -> None:
    without_arms = {"padding": "none", "compare.arms": "[{}]"}
    assert load("demo", without_arms).padding == "none"
    with pytest.raises(InputError) as error:
        load("demo", {**without_arms, **fields})
    assert message in str(error.value)


def test_options_need_their_compiler() -> None:
    with pytest.raises(InputError) as error:
        load("demo", {"compile_mode": "max-autotune"})
    assert "compile_mode requires compiler 'inductor'; the compiler is 'none'" in str(error.value)
    experiment = load("demo", {"compiler": "inductor", "compile_mode": "max-autotune", "compile_dynamic": "false"})
    assert (experiment.compile_mode, experiment.compile_dynamic) == ("max-autotune", False)


def test_another_compiler_drops_the_options_of_inductor(tmp_path: Path) -> None:
    """An arm of a comparison without a compiler is the control of arms with its options."""
    path = tmp_path / "mine.yaml"
    text = (
        Path("experiments/demo.yaml")
        .read_text()
        .replace("precision: auto", "compiler: inductor\ncompile_mode: max-autotune")
    )
    path.write_text(text)
    assert load(str(path), {"compiler": "none"}).compile_mode == "default"


def test_sharding_fits_the_compilers_of_gpus() -> None:
    experiment = load("demo", {"sharding": "fsdp2", "compiler": "inductor", "machine.devices": "2"})
    assert hyperparameters(experiment, (64,))["sharding"] == "fsdp2"
    assert "sharding" not in hyperparameters(load("demo", {}), (64,))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (TRN1, "sharding 'fsdp2' needs compiler 'none' or 'inductor', not 'neuron'"),
        ({"compiler": "inductor", "compile_scope": "model"}, "needs compile_scope 'layers', not 'model'"),
        (
            {"compiler": "inductor", "compile_mode": "max-autotune"},
            "does not work with compile_mode 'max-autotune', which records CUDA graphs",
        ),
        ({**GPUS, "machine.launcher": "smddp"}, "needs machine.launcher 'torchrun' or 'pytorchddp', not 'smddp'"),
        ({**GPUS, "machine.image": "{pytorch: 2.5}"}, "needs torch 2.6 or later, but machine.image.pytorch is 2.5"),
        (
            {**GPUS, "calibration.batch_sizes": "8,16"},
            "calibration and sharding 'fsdp2' cannot be combined on several devices",
        ),
    ],
)
def test_fields_that_do_not_fit_sharding_are_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        load("demo", {"sharding": "fsdp2", **fields})
    assert message in str(error.value)
