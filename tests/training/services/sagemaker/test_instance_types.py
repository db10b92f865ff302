"""The table of instance types equals its sources, and jobs are compared with it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.aws.instance_facts import facts, instance_types, text
from training.contract.errors import InputError
from training.contract.job_spec import JobSpec
from training.services.sagemaker.instance_types import TABLE, described, device_count, is_known
from training.services.sagemaker.job_rules import check_devices, check_settings, device_notes


def spec(**fields: Any) -> JobSpec:
    """Return a job on one ml.g5.xlarge, with some other `fields`."""
    uris = {"source_uri": "s3://b/s", "output_uri": "s3://b/o"}
    return JobSpec(
        **{"name": "job", "hyperparameters": {}, "channels": {}, "instance_type": "ml.g5.xlarge", **uris, **fields}
    )


def test_the_table_equals_the_sources_that_are_installed() -> None:
    assert TABLE.read_text() == text(facts())


def test_the_counts_of_almost_all_types_of_the_api_are_known() -> None:
    """No installed source has these two. Their counts are unknown, not guessed."""
    assert [name for name in instance_types() if not is_known(name)] == ["ml.dl1.24xlarge", "ml.p6e-gb200.36xlarge"]


@pytest.mark.parametrize(
    ("instance_type", "count", "words"),
    [
        # From AWS's pages of the instance types.
        ("ml.p3.16xlarge", 8, "8 GPUs with 16 GiB each"),
        ("ml.p4d.24xlarge", 8, "8 A100 GPUs with 40 GiB each"),
        ("ml.p5.48xlarge", 8, "8 H100 GPUs with 80 GiB each"),
        ("ml.p5en.48xlarge", 8, "8 H200 GPUs with 141 GiB each"),
        ("ml.g4dn.12xlarge", 4, "4 T4 GPUs with 16 GiB each"),
        ("ml.g5.xlarge", 1, "1 A10G GPU with 22 GiB"),
        ("ml.gr6.4xlarge", 1, "1 L4 GPU with 22 GiB"),
        ("ml.g7e.12xlarge", 2, "2 RTX PRO Server 6000 GPUs with 96 GiB each"),
        ("ml.trn1.32xlarge", 32, "16 Trainium chips with 32 GiB each"),
        ("ml.trn2.48xlarge", None, "16 Trainium2 chips"),
        ("ml.inf2.48xlarge", 24, "12 Inferentia2 chips with 32 GiB each"),
        ("ml.m5.large", 0, "no GPU"),
        ("ml.p9.99xlarge", None, "unknown number of GPUs"),
    ],
)
def test_devices(instance_type: str, count: int | None, words: str) -> None:
    assert (device_count(instance_type), described(instance_type)) == (count, words)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"devices": 2, "instance_type": "ml.g6.12xlarge"},
            r"machine.devices is 2, but ml.g6.12xlarge has 4 GPUs, and launcher 'torchrun' starts one process on each",
        ),
        ({"devices": 4, "instance_type": "ml.trn1.2xlarge"}, r"has 2 Neuron cores"),
        (
            {"fallback_instance_types": ("ml.g4dn.xlarge", "ml.g5.12xlarge")},
            r"has ml.g5.12xlarge \(4 A10G GPUs with 22 GiB each\), but machine.instance_type is ml.g5.xlarge \(1 A10G",
        ),
        (
            {"devices": 4, "instance_type": "ml.g5.12xlarge", "fallback_instance_types": ("ml.g5.48xlarge",)},
            "a fallback must have as many devices",
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
        {"devices": 4, "instance_type": "ml.g5.12xlarge", "fallback_instance_types": ("ml.g6.12xlarge",)},
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


FP8, LIGER, BLOCKWISE = {"precision": "fp8"}, {"kernels": "liger"}, {"attention": "blockwise"}


@pytest.mark.parametrize(
    ("instance_type", "hyperparameters", "message"),
    [
        ("ml.g5.xlarge", FP8, "such as L4, L40S and H100, but ml.g5.xlarge has 1 A10G GPU with 22 GiB: use precision"),
        ("ml.p4d.24xlarge", FP8, "ml.p4d.24xlarge has 8 A100 GPUs with 40 GiB each: use precision 'bf16'"),
        ("ml.m5.large", FP8, "but ml.m5.large has no GPU: use precision 'bf16'"),
        (
            "ml.g5.xlarge",
            BLOCKWISE,
            "attention 'blockwise' is for CPUs, but ml.g5.xlarge has 1 A10G GPU with 22 GiB: use 'auto'",
        ),
        ("ml.m5.large", LIGER, "kernels 'liger' needs an NVIDIA GPU, but ml.m5.large has no GPU: use 'torch'"),
        ("ml.trn1.2xlarge", LIGER, "needs an NVIDIA GPU, but ml.trn1.2xlarge has 1 Trainium chip with 32 GiB"),
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


@pytest.mark.parametrize("instance_type", ["ml.g6.xlarge", "ml.g6e.xlarge", "ml.p5.48xlarge", "ml.p9.99xlarge"])
def test_newer_and_unknown_types_may_train_in_8_bits(instance_type: str) -> None:
    check_settings(spec(instance_type=instance_type, hyperparameters={**FP8, **LIGER}))
    check_settings(spec(instance_type="ml.g5.xlarge", hyperparameters=LIGER))


def test_a_scripts_own_precision_is_not_checked() -> None:
    check_settings(spec(instance_type="ml.m5.large", hyperparameters=FP8, is_script=True))
