"""Images that cannot run our own job. A script may use each of them."""

from __future__ import annotations

import pytest

from tests.support.requests.images import DLC, FOR_TRAINIUM, FOR_TRCOMP, FOR_V100, NEWEST, TRANSFORMERS_4_6
from tests.training.services.sagemaker.images.specs import spec
from training.contract.errors import InputError
from training.services.sagemaker.images.rules import check_image

P3 = {"instance_type": "ml.p3.2xlarge"}
CANNOT_RUN = [
    ("pytorch-training:2.9.0-gpu-py312-cu130-ubuntu22.04-sagemaker", {}, "does not contain Transformers"),
    ("pytorch-trcomp-training:1.13.1-gpu-py39-cu117-ubuntu20.04-sagemaker", {}, "does not contain Transformers"),
    (TRANSFORMERS_4_6, {}, "has Transformers 4.6, and this training needs 4.21 or later"),
    (
        "huggingface-pytorch-training:1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04",
        {},
        "has Transformers 4.17.0, and this training needs 4.21 or later",
    ),
    # AWS publishes no such image today; a mirror may have one.
    ("huggingface-pytorch-training:2.9.0-transformers5.3.0-cpu-py312", {}, "is for CPUs, but ml.g5.xlarge has GPUs"),
    (NEWEST, P3, "which has no kernels for the V100 of ml.p3.2xlarge"),
    # The tag may omit CUDA, which the table states.
    ("huggingface-pytorch-training:2.9-transformers5.3-gpu-py312", P3, "which has no kernels for the V100"),
    (NEWEST, {"fallback_instance_types": ("ml.p3dn.24xlarge",)}, "for the V100 of ml.p3dn.24xlarge"),
    (FOR_TRAINIUM, {}, "is for Trainium, on which only your own script runs"),
    (NEWEST, {"region": "eu-central-1"}, "is in us-east-1, but the jobs run in eu-central-1"),
]


@pytest.mark.parametrize(("image", "fields", "message"), CANNOT_RUN)
def test_our_own_job_is_refused_and_a_script_is_not(image: str, fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        check_image(spec(image=f"{DLC}/{image}", **fields))
    assert message in str(error.value)
    check_image(spec(image=f"{DLC}/{image}", is_script=True, **fields))


@pytest.mark.parametrize(
    ("image", "fields"),
    [
        (f"{DLC}/{NEWEST}", {}),
        (f"{DLC}/{FOR_V100}", P3),
        (f"{DLC}/{FOR_TRCOMP}", {"compiler": "trcomp", **P3}),
        # The contents of a user's own image are unknown.
        ("111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1.0-gpu-py38", {}),
        ("own.example/pytorch:latest", {"instance_type": "ml.m5.large"}),
    ],
)
def test_other_images_pass(image: str, fields: dict[str, object]) -> None:
    check_image(spec(image=image, **fields))
