"""Rules of SageMaker's SDK: one job that breaks each rule, and jobs that do not break any."""

from __future__ import annotations

from typing import Any

import pytest

from training.contract.errors import InputError
from training.contract.job_spec import JobSpec, is_shell_safe
from training.services.sagemaker.job_rules import (
    check_devices,
    check_instance_types,
    check_sdk_rules,
    check_settings,
    device_notes,
    shell_safe_hyperparameters,
)

ACCOUNT = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
TRCOMP = f"{ACCOUNT}/huggingface-pytorch-trcomp-training:1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04"
OLD_TRCOMP = f"{ACCOUNT}/huggingface-pytorch-trcomp-training:1.9.0-transformers4.11.0-gpu-py38-cu111-ubuntu20.04"
PLAIN_TRCOMP = f"{ACCOUNT}/pytorch-trcomp-training:1.13.1-gpu-py39-cu117-ubuntu20.04-sagemaker"
NEW = f"{ACCOUNT}/huggingface-pytorch-training:2.9.0-transformers5.3.0-gpu-py312-cu130-ubuntu22.04"
NEURON = f"{ACCOUNT}/huggingface-pytorch-training-neuronx:2.8.0-transformers4.55.4-neuronx-py310-sdk2.26.0-ubuntu22.04"
OLD = f"{ACCOUNT}/huggingface-pytorch-training:1.9-transformers4.12-gpu-py38-cu111-ubuntu20.04"
TRN1 = {"is_script": True, "devices": 2, "instance_type": "ml.trn1.2xlarge"}
FP8, LIGER, BLOCKWISE = {"precision": "fp8"}, {"kernels": "liger"}, {"attention": "blockwise"}
SMP = {"launcher": "smp", "devices": 8, "instance_type": "ml.p3.16xlarge", "image": OLD}
INVALID: list[tuple[dict[str, Any], str]] = [
    (
        {"compiler": "trcomp", "image": TRCOMP, "instance_type": "ml.p4de.24xlarge"},
        "supports only the families p3, p3dn, g4dn, p4d, g5",
    ),
    ({"compiler": "trcomp"}, "compiler 'trcomp' needs an image of SageMaker Training Compiler"),
    ({"image": TRCOMP}, "compiler 'none' does not run in the Training Compiler's image"),
    (
        {"compiler": "trcomp", "image": TRCOMP.replace("1.11.0", "1.12.0")},
        "needs PyTorch 1.9 to 1.11 in images with Transformers; this image has 1.12.0",
    ),
    ({"launcher": "xla", "devices": 4}, "launcher 'xla' needs the compiler trcomp or trcomp-off"),
    (
        {"compiler": "trcomp", "image": TRCOMP, "launcher": "smddp", "devices": 8, "instance_type": "ml.p3.16xlarge"},
        "launcher 'smddp' and compiler 'trcomp' cannot be combined",
    ),
    (
        {"compiler": "trcomp", "image": OLD_TRCOMP, "devices": 4, "instance_type": "ml.p3.8xlarge"},
        "launcher 'xla' needs PyTorch 1.11 or later; the image has 1.9.0",
    ),
    (
        {"compiler": "trcomp", "image": TRCOMP, "launcher": "torchrun", "devices": 4},
        "compiler 'trcomp' needs launcher 'xla' with PyTorch 1.11 or later, not 'torchrun'",
    ),
    ({"compiler": "inductor", "image": OLD}, "compiler 'inductor' needs PyTorch 2.0 or later; the image has 1.9"),
    ({"devices": 2, "instance_type": "ml.m5.large"}, "runs only on GPUs and Trainium; ml.m5.large has neither"),
    ({"devices": 2, "image": OLD}, "launcher 'torchrun' needs PyTorch 1.13.1 or later on GPUs; the image has 1.9"),
    ({"devices": 2, "program": "train.sh"}, "starts only Python programs; 'train.sh' is not one"),
    (
        {**TRN1, "launcher": "pytorchddp", "image": "own.example/x:1"},
        "launcher 'pytorchddp' does not run on Trainium",
    ),
    (
        {**TRN1, "is_script": False, "image": NEURON},
        "Our own training does not run on Trainium (ml.trn1.2xlarge): use a type with a GPU, or your own script",
    ),
    ({"launcher": "smddp", "devices": 4, "image": OLD}, "not on ml.g5.xlarge"),
    ({"mpi_options": "-x A"}, "mpi_options needs the launcher smddp or smp, not a single process"),
    ({"devices": 2, "model_parallel": {"partitions": 2}}, "model_parallel needs the launcher smp, not torchrun"),
    ({**SMP, "model_parallel": {"partitions": True}}, "model_parallel.partitions is True; it must be a whole number"),
    (SMP, "launcher 'smp' needs model_parallel.partitions"),
    ({"max_wait_seconds": 60}, "max_wait_seconds 60 applies only to spot training, but spot is false"),
    ({"spot": True}, "spot needs a checkpoint URI in S3"),
    (
        {"spot": True, "checkpoint_uri": "s3://b/c", "max_run_seconds": 61, "max_wait_seconds": 60},
        "max_wait_seconds 60 must be at least max_run_seconds 61",
    ),
    (
        {"spot": True, "checkpoint_uri": "s3://b/c", "fallback_instance_types": ("ml.g4dn.xlarge",)},
        "spot and fallback_instance_types cannot be combined",
    ),
    ({"channels": {"train": "efs://fs-0123abcd/rows"}}, "channel 'train' is in a file system, which needs aws.subnets"),
    ({"subnets": ("subnet-1",)}, "subnets and security_groups must be set together; security_groups is missing"),
]


def spec(**fields: Any) -> JobSpec:
    """Return a job on one ml.g5.xlarge with AWS's image, with other fields."""
    defaults = {
        "name": "job",
        "hyperparameters": {},
        "channels": {},
        "source_uri": "s3://b/s",
        "output_uri": "s3://b/o",
    }
    return JobSpec(**{**defaults, "instance_type": "ml.g5.xlarge", "image": NEW, **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"compiler": "inductor"},
        {"compiler": "trcomp", "image": TRCOMP, "instance_type": "ml.p3.2xlarge"},
        {"compiler": "trcomp", "image": PLAIN_TRCOMP, "instance_type": "ml.g4dn.12xlarge", "devices": 4},
        {"compiler": "trcomp", "image": OLD_TRCOMP, "instance_type": "ml.p3.8xlarge", "launcher": "pytorchddp"},
        {"devices": 4, "instance_type": "ml.g5.12xlarge"},
        {**TRN1, "image": "own.example/neuron:1"},
        {**TRN1, "image": NEURON},
        {"launcher": "smddp", "devices": 8, "instance_type": "ml.p3.16xlarge", "image": OLD},
        {**SMP, "model_parallel": {"partitions": 4, "microbatches": 4, "pipeline": "interleaved", "ddp": True}},
        {"spot": True, "checkpoint_uri": "s3://b/c", "max_run_seconds": 60, "max_wait_seconds": 60},
        {"fallback_instance_types": ("ml.g4dn.xlarge", "ml.p3.2xlarge")},
    ],
)
def test_valid_jobs_pass(fields: dict[str, Any]) -> None:
    check_sdk_rules(spec(**fields))


@pytest.mark.parametrize(("fields", "message"), INVALID)
def test_invalid_jobs_are_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_sdk_rules(spec(**fields))
    assert message in str(caught.value)
    assert str(caught.value).endswith(".")


def test_each_instance_type_is_one_and_is_listed_once() -> None:
    with pytest.raises(InputError, match=r"instance_type 'g5\.xlarge' is not a SageMaker instance type"):
        check_instance_types(spec(instance_type="g5.xlarge"))
    with pytest.raises(InputError, match="fallback_instance_types repeats a type"):
        check_instance_types(spec(fallback_instance_types=("ml.g5.xlarge",)))


def test_a_shell_changes_only_some_words() -> None:
    changed = ["", "a b", "$HOME", "it's", "a;b", "(x)", "[1, 2]", "*", "~", "a\nb", "é", "a&b", '"']
    assert [word for word in changed if is_shell_safe(word)] == []
    kept = ["3e-05", "org/model-v1.0", "a=b", "32,64", "--name", "100%", "True", "user@host:1"]
    assert [word for word in kept if not is_shell_safe(word)] == []


def test_the_name_of_a_staged_model_is_only_a_label() -> None:
    """Arguments arrive although SageMaker's toolkit quotes nothing for its shell."""
    staged = spec(hyperparameters={"model": "/my models/it's (1)", "epochs": 2}, channels={"model": "file:///m"})
    assert shell_safe_hyperparameters(staged) == {"model": "/my_models/it_s__1_", "epochs": 2}
    with pytest.raises(InputError, match="model_revision 'a b' cannot be passed on SageMaker"):
        shell_safe_hyperparameters(spec(hyperparameters={"model_revision": "a b"}))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"devices": 2, "instance_type": "ml.g6.12xlarge"},
            r"machine.devices is 2, but ml.g6.12xlarge has 4 GPUs, and launcher 'torchrun' starts one process on each",
        ),
        (
            {"fallback_instance_types": ("ml.g4dn.xlarge", "ml.g5.12xlarge")},
            r"has ml.g5.12xlarge \(4 A10G GPUs with 22 GiB each\), but machine.instance_type is ml.g5.xlarge \(1 A10G",
        ),
        ({"fallback_instance_types": ("ml.p9.xlarge",)}, r"ml.p9.xlarge \(unknown number of GPUs\)"),
        ({"instance_type": "ml.p9.xlarge", "fallback_instance_types": ("ml.p9.large",)}, "unknown number"),
    ],
)
def test_other_numbers_of_devices_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_devices(spec(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"fallback_instance_types": ("ml.g4dn.xlarge", "ml.p3.2xlarge", "ml.g6e.xlarge")},
        {"devices": 2, "instance_type": "ml.trn1.2xlarge"},
        {"instance_type": "ml.m5.large", "fallback_instance_types": ("ml.c5.xlarge",)},
    ],
)
def test_equal_numbers_of_devices_pass_without_notes(fields: dict[str, Any]) -> None:
    check_devices(spec(**fields))
    assert list(device_notes(spec(**fields))) == []


def test_idle_devices_and_unknown_types_are_noted() -> None:
    [idle] = device_notes(spec(instance_type="ml.g5.12xlarge"))
    assert idle.startswith("machine.devices is 1, but ml.g5.12xlarge has 4 GPUs: 3 are idle and billed nevertheless;")
    check_devices(spec(instance_type="ml.p9.xlarge", devices=8))
    [unknown] = device_notes(spec(instance_type="ml.p9.xlarge", devices=8))
    assert unknown.startswith("the number of GPUs of ml.p9.xlarge is unknown (it is not in the table: EC2 Describe")
    assert "2026-11-25" in unknown


@pytest.mark.parametrize(
    ("instance_type", "hyperparameters", "message"),
    [
        ("ml.g5.xlarge", FP8, "such as L4, L40S and H100, but ml.g5.xlarge has 1 A10G GPU with 22 GiB: use precision"),
        (
            "ml.g5.xlarge",
            BLOCKWISE,
            "attention 'blockwise' is for CPUs, but ml.g5.xlarge has 1 A10G GPU with 22 GiB: use 'auto'",
        ),
        ("ml.m5.large", LIGER, "kernels 'liger' needs an NVIDIA GPU, but ml.m5.large has no GPU: use 'torch'"),
    ],
)
def test_settings_that_the_gpus_do_not_support_are_refused(
    instance_type: str, hyperparameters: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as error:
        check_settings(spec(instance_type=instance_type, hyperparameters=hyperparameters))
    assert message in str(error.value)
    types = {"instance_type": "ml.p5.48xlarge", "fallback_instance_types": [instance_type]}
    with pytest.raises(InputError):
        check_settings(spec(**types, hyperparameters=hyperparameters))


def test_newer_and_unknown_types_may_train_in_8_bits_and_a_script_as_it_likes() -> None:
    for instance_type in ("ml.g6.xlarge", "ml.p5.48xlarge", "ml.p9.99xlarge"):
        check_settings(spec(instance_type=instance_type, hyperparameters={**FP8, **LIGER}))
    check_settings(spec(instance_type="ml.m5.large", hyperparameters=FP8, is_script=True))
