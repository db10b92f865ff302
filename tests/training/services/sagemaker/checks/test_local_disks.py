"""Built-in disks: the table agrees with EC2's for every type of SageMaker, and no volume key is sent for them."""

from __future__ import annotations

import boto3
import pytest

from tests.support.aws.service_rules import local_disk_gb
from tests.support.requests.building import Built
from tests.support.requests.workloads import ACCOUNT
from training.contract.errors import InputError
from training.services.sagemaker.instance_types import SIZES_GB, has_local_disk

MODEL = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
NOT_IN_EC2S_LIST = {"ml.p6e-gb200.36xlarge": True, "ml.dl1.24xlarge": True}
"""Types that moto's copy of DescribeInstanceTypes lacks: p2 and p3, which have no such disk, and these."""
KEY = {"aws.volume_key": "alias/mine"}


@pytest.mark.parametrize("shape", ["TrainingInstanceType", "ProductionVariantInstanceType"])
def test_the_rule_holds_for_every_instance_type(shape: str) -> None:
    types = MODEL.shape_for(shape).enum
    assert len(types) > 200
    expected = {each: NOT_IN_EC2S_LIST.get(each, local_disk_gb(each) is not None) for each in types}
    assert {each: has_local_disk(each) for each in types} == expected


def test_the_table_has_the_size_of_every_disk_for_training() -> None:
    types = MODEL.shape_for("TrainingInstanceType").enum
    sizes = {each.removeprefix("ml."): local_disk_gb(each) for each in types}
    assert {name: size for name, size in sizes.items() if size} == SIZES_GB


def test_the_key_is_left_out_for_built_in_disks_as_the_sdk_does(built: Built) -> None:
    request = built("demo", **ACCOUNT, **KEY, **{"machine.instance_type": "ml.g5.xlarge"})
    assert "VolumeKmsKeyId" not in request["ResourceConfig"]
    note = "Note: aws.volume_key does not apply to ml.g5.xlarge: its disks have a key of their own."
    assert note in built.log_lines
    request = built("demo", **ACCOUNT, **KEY, **{"machine.instance_type": "ml.p3.2xlarge"})
    assert request["ResourceConfig"]["VolumeKmsKeyId"] == "alias/mine"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {**KEY, "machine.instance_type": "ml.p3.2xlarge", "machine.fallback_instance_types": "ml.g5.xlarge"},
            "aws.volume_key cannot encrypt the built-in disk of ml.g5.xlarge, but another instance type needs the key",
        ),
        (
            {"machine.instance_type": "ml.g4dn.xlarge", "machine.volume_gib": "126"},
            "volume_gib 126 is more than the built-in disk of ml.g4dn.xlarge, which has 125 GB",
        ),
    ],
)
def test_a_volume_that_sagemaker_refuses_is_an_error_before_the_upload(
    built: Built, fields: dict[str, str], message: str
) -> None:
    before = built.uploaded()
    built.rows = message
    with pytest.raises(InputError, match=message):
        built("demo", **ACCOUNT, **fields)
    assert built.uploaded() == before
