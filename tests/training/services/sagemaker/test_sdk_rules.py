"""Rules of SageMaker's SDK: one job that breaks each rule, and jobs that do not break any."""

from __future__ import annotations

from typing import Any

import pytest

from training.contract.errors import InputError
from training.contract.image_address import read_image
from training.contract.job_spec import JobSpec
from training.services.sagemaker.job_rules import advice, check_sdk_rules

ACCOUNT = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
TRCOMP = f"{ACCOUNT}/huggingface-pytorch-trcomp-training:1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04"
OLD_TRCOMP = f"{ACCOUNT}/huggingface-pytorch-trcomp-training:1.9.0-transformers4.11.0-gpu-py38-cu111-ubuntu20.04"
PLAIN_TRCOMP = f"{ACCOUNT}/pytorch-trcomp-training:1.13.1-gpu-py39-cu117-ubuntu20.04-sagemaker"
NEW = f"{ACCOUNT}/huggingface-pytorch-training:2.9.0-transformers5.3.0-gpu-py312-cu130-ubuntu22.04"
NEURON = f"{ACCOUNT}/huggingface-pytorch-training-neuronx:2.8.0-transformers4.55.4-neuronx-py310-sdk2.26.0-ubuntu22.04"
OLD = f"{ACCOUNT}/huggingface-pytorch-training:1.9-transformers4.12-gpu-py38-cu111-ubuntu20.04"


def spec(**fields: Any) -> JobSpec:
    defaults = {
        "name": "job",
        "hyperparameters": {},
        "channels": {},
        "source_uri": "s3://b/s",
        "output_uri": "s3://b/o",
        "instance_type": "ml.g5.xlarge",
        "image": NEW,
    }
    return JobSpec(**{**defaults, **fields})


TRN1 = {"is_script": True, "devices": 2, "instance_type": "ml.trn1.2xlarge"}
SMP = {"launcher": "smp", "devices": 8, "instance_type": "ml.p3.16xlarge", "image": OLD}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"compiler": "inductor"},
        {"compiler": "trcomp", "image": TRCOMP, "instance_type": "ml.p3.2xlarge"},
        {"compiler": "trcomp", "image": PLAIN_TRCOMP, "instance_type": "ml.g4dn.12xlarge", "devices": 4},
        {"compiler": "trcomp-off", "image": TRCOMP, "instance_type": "ml.p3.8xlarge", "devices": 4},
        {"compiler": "trcomp", "image": OLD_TRCOMP, "instance_type": "ml.p3.8xlarge", "launcher": "pytorchddp"},
        {"devices": 4, "instance_type": "ml.g5.12xlarge"},
        {**TRN1, "image": "own.example/neuron:1"},
        {**TRN1, "image": NEURON},
        {"launcher": "smddp", "devices": 8, "instance_type": "ml.p3.16xlarge", "image": OLD},
        {**SMP, "model_parallel": {"partitions": 4, "microbatches": 4, "pipeline": "interleaved", "ddp": True}},
        {"spot": True, "checkpoint_uri": "s3://b/c", "max_run_seconds": 60, "max_wait_seconds": 60},
        {"instance_type": "ml.m5.large", "image": "own.example/anything:latest"},
        {"fallback_instance_types": ("ml.g4dn.xlarge", "ml.p3.2xlarge")},
    ],
)
def test_valid_jobs_pass(fields: dict[str, Any]) -> None:
    check_sdk_rules(spec(**fields))


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"instance_type": "g5.xlarge"}, "instance_type 'g5.xlarge' is not a SageMaker instance type"),
    ({"fallback_instance_types": ("ml.g5.xlarge",)}, "fallback_instance_types repeats a type"),
    ({"compiler": "trcomp", "image": TRCOMP, "instance_type": "ml.g6.xlarge"}, "does not run on ml.g6.xlarge"),
    (
        {"compiler": "trcomp", "image": TRCOMP, "instance_type": "ml.p4de.24xlarge"},
        "supports only the families p3, p3dn, g4dn, p4d, g5",
    ),
    (
        {"compiler": "trcomp", "image": TRCOMP, "fallback_instance_types": ("ml.p5.48xlarge",)},
        "does not run on ml.p5.48xlarge",
    ),
    ({"compiler": "trcomp"}, "compiler 'trcomp' needs an image of SageMaker Training Compiler"),
    ({"compiler": "trcomp", "image": "own.example/x:1"}, "own.example/x:1 is not one"),
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
    (
        {"launcher": "smddp", "devices": 8, "instance_type": "ml.p3.16xlarge"},
        "needs PyTorch 1.6 to 2.2.0; the image has 2.9.0",
    ),
    ({"mpi_options": "-x A"}, "mpi_options needs the launcher smddp or smp, not a single process"),
    ({"devices": 2, "model_parallel": {"partitions": 2}}, "model_parallel needs the launcher smp, not torchrun"),
    (
        {**SMP, "model_parallel": {"partitions": 2, "pipeline": "fast"}},
        "model_parallel.pipeline is 'fast'; it must be one of simple",
    ),
    ({**SMP, "model_parallel": {"partitions": True}}, "model_parallel.partitions is True; it must be a whole number"),
    (
        {**SMP, "model_parallel": {"partitions": 2, "memory_weight": 1.5}},
        "memory_weight is 1.5; it must be from 0 to 1",
    ),
    ({**SMP, "model_parallel": {"partitions": 2, "ddp": True, "horovod": True}}, "cannot be combined"),
    (SMP, "launcher 'smp' needs model_parallel.partitions"),
    (
        {"launcher": "pytorchddp", "devices": 4, "image": OLD},
        "launcher 'pytorchddp' needs PyTorch 1.10 or later; the image has 1.9",
    ),
    ({"max_wait_seconds": 60}, "max_wait_seconds 60 applies only to spot training, but spot is false"),
    ({"spot": True}, "spot needs a checkpoint URI in S3"),
    ({"spot": True, "checkpoint_uri": "file:///kept"}, "spot needs a checkpoint URI in S3"),
    (
        {"spot": True, "checkpoint_uri": "s3://b/c", "max_run_seconds": 61, "max_wait_seconds": 60},
        "max_wait_seconds 60 must be at least max_run_seconds 61",
    ),
    (
        {"spot": True, "checkpoint_uri": "s3://b/c", "fallback_instance_types": ("ml.g4dn.xlarge",)},
        "spot and fallback_instance_types cannot be combined",
    ),
    (
        {"spot": True, "checkpoint_uri": "s3://b/c", "keep_alive_seconds": 600},
        "spot and keep_alive_seconds 600 cannot be combined",
    ),
    ({"subnets": ("subnet-1",)}, "subnets and security_groups must be set together; security_groups is missing"),
    ({"security_groups": ("sg-1",)}, "subnets and security_groups must be set together; subnets is missing"),
]


@pytest.mark.parametrize(("fields", "message"), INVALID)
def test_invalid_jobs_are_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_sdk_rules(spec(**fields))
    assert message in str(caught.value)
    assert str(caught.value).endswith(".")


def test_a_slow_network_and_debug_mode_give_advice() -> None:
    without = spec(compiler="trcomp", image=TRCOMP, devices=4, instance_type="ml.p3.8xlarge")
    assert "ml.p3.8xlarge has no Elastic Fabric Adapter" in advice(without)[0]
    assert advice(spec(compiler="trcomp", image=TRCOMP, devices=4, instance_type="ml.g4dn.12xlarge")) == []
    assert "debug mode" in advice(spec(compiler="trcomp", image=TRCOMP, compiler_debug=True))[0]


def test_a_model_that_is_split_over_gpus_gives_advice() -> None:
    split = spec(launcher="smp", devices=8, instance_type="ml.p4d.24xlarge", model_parallel={"partitions": 4})
    assert advice(split)[0].startswith(
        "launcher smp splits the model over 4 GPUs, but batch size, learning rate and rows"
    )
    whole = spec(launcher="smp", devices=8, instance_type="ml.p4d.24xlarge", model_parallel={"partitions": 1})
    assert advice(whole) == []


def test_versions_are_read_from_an_image_uri() -> None:
    image = read_image(TRCOMP)
    assert image
    assert image.has_training_compiler
    assert image.on_gpu
    assert (image.pytorch, image.transformers, image.pytorch_text) == ((1, 11, 0), "4.21.1", "1.11.0")
    short = read_image(OLD)
    assert short
    assert not short.has_training_compiler
    assert short.pytorch == (1, 9)
    assert read_image("own.example/pytorch:latest") is None
    assert read_image("local") is None
