"""The tables of accelerators and of built-in disks equal their sources, and no volume key is sent for such disks."""

from __future__ import annotations

import boto3
import pytest

from tests.support.aws.instance_facts import facts, text
from tests.support.aws.service_rules import local_disk_gb
from tests.support.requests.building import Built
from tests.support.requests.workloads import ACCOUNT
from training.services.sagemaker.machines import (
    TYPES_FILE,
    described,
    device_count,
    has_local_disk,
)

MODEL = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
NOT_IN_EC2S_LIST = {"ml.p6e-gb200.36xlarge": True, "ml.dl1.24xlarge": True}
"""Types that moto's copy of DescribeInstanceTypes lacks: p2 and p3, which have no such disk, and these."""
KEY = {"aws.volume_key": "alias/mine"}


def test_the_table_equals_the_sources_that_are_installed() -> None:
    assert TYPES_FILE.read_text() == text(facts())


@pytest.mark.parametrize(
    ("instance_type", "count", "words"),
    [
        # From AWS's pages of the instance types.
        ("ml.p3.16xlarge", 8, "8 GPUs with 16 GiB each"),
        ("ml.p5en.48xlarge", 8, "8 H200 GPUs with 141 GiB each"),
        ("ml.g4dn.12xlarge", 4, "4 T4 GPUs with 16 GiB each"),
        ("ml.g5.xlarge", 1, "1 A10G GPU with 22 GiB"),
        ("ml.trn1.32xlarge", 32, "16 Trainium chips with 32 GiB each"),
        ("ml.trn2.48xlarge", None, "16 Trainium2 chips"),
        ("ml.m5.large", 0, "no GPU"),
        ("ml.p9.99xlarge", None, "unknown number of GPUs"),
    ],
)
def test_devices(instance_type: str, count: int | None, words: str) -> None:
    assert (device_count(instance_type), described(instance_type)) == (count, words)


def test_the_rule_of_built_in_disks_holds_for_every_instance_type() -> None:
    for shape in ("TrainingInstanceType", "ProductionVariantInstanceType"):
        types = MODEL.shape_for(shape).enum
        assert len(types) > 200
        expected = {each: NOT_IN_EC2S_LIST.get(each, local_disk_gb(each) is not None) for each in types}
        assert {each: has_local_disk(each) for each in types} == expected


def test_the_key_is_left_out_for_built_in_disks_as_the_sdk_does(built: Built) -> None:
    request = built("demo", **ACCOUNT, **KEY, **{"machine.instance_type": "ml.g5.xlarge"})
    assert "VolumeKmsKeyId" not in request["ResourceConfig"]
    note = "Note: aws.volume_key does not apply to ml.g5.xlarge: its disks have a key of their own."
    assert note in built.log_lines
    request = built("demo", **ACCOUNT, **KEY, **{"machine.instance_type": "ml.p3.2xlarge"})
    assert request["ResourceConfig"]["VolumeKmsKeyId"] == "alias/mine"
