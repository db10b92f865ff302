"""AWS's image for a job: by instance types and versions."""

from __future__ import annotations

import pytest

from tests.support.requests.images import FOR_TRCOMP, FOR_V100, NEWEST
from tests.training.services.sagemaker.images.specs import spec
from training.contract.errors import InputError
from training.services.sagemaker.images.default import default_image


@pytest.mark.parametrize(
    ("fields", "image"),
    [
        ({"instance_type": "ml.g5.xlarge"}, NEWEST),
        ({"instance_type": "ml.p6-b200.48xlarge"}, NEWEST),
        # A V100 needs a build for CUDA before 12.8.
        ({"instance_type": "ml.p3.2xlarge"}, FOR_V100),
        ({"instance_type": "ml.g5.xlarge", "fallback_instance_types": ("ml.p3dn.24xlarge",)}, FOR_V100),
        ({"compiler": "trcomp"}, FOR_TRCOMP),
        ({"image_versions": {"transformers": "4.49", "pytorch": "2.5"}}, FOR_V100),
        ({"image_versions": {"pytorch": "2.5.1"}}, FOR_V100),
        # A script may do without Transformers, and on CPUs it must.
        ({"is_script": True}, NEWEST),
        ({"is_script": True, "instance_type": "ml.m5.large"}, "pytorch-training:2.10.0-cpu-py313"),
        ({"is_script": True, "image_versions": {"pytorch": "2.10"}}, "pytorch-training:2.10.0-gpu-py313"),
        (
            {"is_script": True, "image_versions": {"transformers": "4.17"}},
            "huggingface-pytorch-training:1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04",
        ),
    ],
)
def test_the_newest_image_that_runs_on_every_type_is_chosen(fields: dict[str, object], image: str) -> None:
    assert default_image(spec(**fields), "us-east-1") == f"763104351884.dkr.ecr.us-east-1.amazonaws.com/{image}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instance_type": "ml.m5.large"}, "no image with Transformers for ml.m5.large (CPUs): set machine.image"),
        ({"instance_type": "ml.c7g.large"}, "no image with Transformers for ml.c7g.large (Arm CPUs)"),
        ({"instance_type": "ml.p6e-gb200.36xlarge", "is_script": True}, "ml.p6e-gb200.36xlarge (Arm CPUs)"),
        ({"instance_type": "ml.trn1.2xlarge"}, "for ml.trn1.2xlarge (Trainium)"),
        ({"image_versions": {"transformers": "4.12"}}, "asks for transformers 4.12, which no image for ml.g5.xlarge"),
        ({"instance_type": "ml.p3.2xlarge", "image_versions": {"transformers": "5.3"}}, "asks for transformers 5.3"),
        # 2.1 is not the beginning of 2.10.
        ({"image_versions": {"pytorch": "2.10"}}, "asks for pytorch 2.10"),
    ],
)
def test_a_job_without_an_image_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        default_image(spec(**fields), "us-east-1")
    assert message in str(error.value)


def test_a_region_without_images_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"lists no image huggingface-pytorch-training for ml.g5.xlarge in ap-nowhere-9"
    ):
        default_image(spec(), "ap-nowhere-9")
