"""Options of SageMaker that the golden requests do not cover, from the command line to the request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.requests.building import GROUP, Built
from tests.support.requests.workloads import ACCOUNT
from training.services.supervision import toolkit

G5 = {**ACCOUNT, "machine.instance_type": "ml.g5.xlarge"}
G5_OF_4 = {**ACCOUNT, "machine.instance_type": "ml.g5.12xlarge", "machine.devices": "4"}
P4D = {**ACCOUNT, "machine.instance_type": "ml.p4d.24xlarge", "machine.devices": "8"}
PYTORCH_2_1 = "{transformers: 4.36, pytorch: '2.1'}"


def flags(request: dict[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters that the toolkit reads, without those that every job has."""
    always = ("program", "submit_directory", "container_log_level", "job_name", "region")
    hyperparameters = toolkit.decoded(request["HyperParameters"])
    return {
        name: value
        for name, value in hyperparameters.items()
        if name.startswith("sagemaker_") and name[10:] not in always
    }


OFF = {"sagemaker_training_compiler_enabled": False, "sagemaker_training_compiler_debug_mode": False}
ON = OFF | {"sagemaker_training_compiler_enabled": True}
XLA = {"sagemaker_pytorch_xla_multi_worker_enabled": True}


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({**G5}, {}),
        (G5_OF_4, {"sagemaker_torch_distributed_enabled": True, "sagemaker_instance_type": "ml.g5.12xlarge"}),
        (
            {**G5, "machine.instance_count": "2"},
            {"sagemaker_torch_distributed_enabled": True, "sagemaker_instance_type": "ml.g5.xlarge"},
        ),
        (
            {**P4D, "machine.launcher": "pytorchddp"},
            {"sagemaker_pytorch_ddp_enabled": True, "sagemaker_instance_type": "ml.p4d.24xlarge"},
        ),
    ],
)
def test_launchers_of_tasks_set_toolkit_flags(
    built: Built, overrides: dict[str, str], expected: dict[str, Any]
) -> None:
    assert flags(built("demo", **overrides)) == expected


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({**G5, "compiler": "trcomp", "compiler_debug": "true"}, ON | {"sagemaker_training_compiler_debug_mode": True}),
        ({**G5, "compiler": "trcomp-off"}, OFF),
        ({**G5_OF_4, "compiler": "trcomp"}, ON | XLA),
        (
            {**P4D, "machine.launcher": "smddp", "machine.image": PYTORCH_2_1, "machine.mpi_options": "-verbose"},
            {
                "sagemaker_distributed_dataparallel_enabled": True,
                "sagemaker_distributed_dataparallel_custom_mpi_options": "-verbose",
                "sagemaker_instance_type": "ml.p4d.24xlarge",
            },
        ),
        (
            {**P4D, "machine.launcher": "smp", "machine.image": PYTORCH_2_1, "machine.model_parallel.partitions": "2"},
            {
                "sagemaker_mpi_enabled": True,
                "sagemaker_mpi_num_of_processes_per_host": 8,
                "sagemaker_mpi_custom_mpi_options": "",
                "sagemaker_distributed_dataparallel_enabled": False,
                "sagemaker_instance_type": "ml.p4d.24xlarge",
            },
        ),
    ],
)
def test_compilers_and_launchers_of_scripts_set_toolkit_flags(
    built: Built, overrides: dict[str, str], expected: dict[str, Any]
) -> None:
    assert flags(built("torch_loop", **overrides)) == expected


def test_network_keys_tags_and_limits_are_passed_on(built: Built) -> None:
    request = built(
        "demo",
        **ACCOUNT,
        **{
            "machine.instance_type": "ml.p3.2xlarge",
            "aws.subnets": "subnet-1,subnet-2",
            "aws.security_groups": "sg-1",
            "aws.isolate_network": "true",
            "aws.encrypt_traffic": "true",
            "aws.volume_key": "alias/disks",
            "aws.output_key": "alias/artifacts",
            "aws.tags": "{team: nlp, cost-centre: 'A 12'}",
            "machine.volume_gib": "500",
            "machine.max_run_seconds": "7200",
        },
    )
    assert request["VpcConfig"] == {"Subnets": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}
    assert request["EnableNetworkIsolation"] is request["EnableInterContainerTrafficEncryption"] is True
    assert request["ResourceConfig"] == {
        "InstanceType": "ml.p3.2xlarge",
        "InstanceCount": 1,
        "VolumeSizeInGB": 500,
        "VolumeKmsKeyId": "alias/disks",
    }
    assert request["OutputDataConfig"] == {
        "S3OutputPath": "s3://bucket/trainfare/output",
        "KmsKeyId": "alias/artifacts",
    }
    tags = {each["Key"]: each["Value"] for each in request["Tags"]}
    assert {name: value for name, value in tags.items() if ":" not in name} == {"team": "nlp", "cost-centre": "A 12"}
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 7200}
    assert request["ProfilerConfig"] == {"DisableProfiler": True}
    assert "DebugHookConfig" not in request


def test_warm_and_fallback_instances_are_requested(built: Built) -> None:
    fallbacks = {"machine.fallback_instance_types": "ml.g4dn.xlarge,ml.p3.2xlarge", "machine.keep_alive_seconds": "600"}
    types = ("ml.g5.xlarge", "ml.g4dn.xlarge", "ml.p3.2xlarge")
    assert built("demo", **G5, **fallbacks)["ResourceConfig"] == {
        "InstancePreferences": [{"InstanceType": each} for each in types],
        "InstanceCount": 1,
        "VolumeSizeInGB": 30,
        "KeepAlivePeriodInSeconds": 600,
    }


def test_spot_jobs_keep_checkpoints(built: Built) -> None:
    spot = {"machine.spot": "true", "machine.max_run_seconds": "60", "save_strategy": "epoch"}
    request = built("demo", **G5, **spot)
    assert request["EnableManagedSpotTraining"] is True
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60 + 86_400}
    assert request["CheckpointConfig"] == {"S3Uri": f"s3://bucket/trainfare/checkpoints/{GROUP}-none-a0r0"}
    assert request["Environment"]["TORCHINDUCTOR_CACHE_DIR"] == "/opt/ml/checkpoints/.compile-cache"


COMPILED = "TRAINFARE_COMPILED_URI"


def test_what_inductor_compiles_is_kept_per_image(built: Built) -> None:
    inductor = {**G5, "compiler": "inductor"}
    environment = built("demo", **inductor, save_strategy="epoch")["Environment"]
    assert environment[COMPILED].startswith("s3://bucket/trainfare/compiled/")
    assert environment["TORCHINDUCTOR_CACHE_DIR"] == "/tmp/compile-cache"
    assert "TRAINFARE_COMPILED_KMS_KEY" not in environment
    image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-training:2.5.1-other"
    assert built("demo", **inductor, **{"machine.image": image})["Environment"][COMPILED] != environment[COMPILED]
    encrypted = built("demo", **inductor, **{"aws.output_key": "alias/b"})["Environment"]
    assert encrypted["TRAINFARE_COMPILED_KMS_KEY"] == "alias/b"
    for without in ({"compiler": "none"}, {"aws.isolate_network": "true"}):
        assert COMPILED not in built("demo", **{**inductor, **without})["Environment"]
