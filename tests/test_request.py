"""The request against what SageMaker's SDK v2 sends, and every refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from training.errors import InputError
from training.jobspec import JobSpec, MetricDefinition
from training.request import build
from training.services import toolkit


def spec(**fields: Any) -> JobSpec:
    given = {"name": "job", "hyperparameters": {}, "channels": {}, "source_uri": "/source", "output_uri": "/out"}
    return JobSpec(**{**given, **fields})


def test_a_local_job_in_full() -> None:
    request = build(
        spec(
            hyperparameters={"model": "a b", "epochs": 3, "rate": 4.875e-05, "fp16": True},
            channels={"train": "file:///data/train"},
            checkpoint_uri="/kept",
            environment={"A": "1"},
            tags={"team": "x"},
            metric_definitions=(MetricDefinition(name="loss", regex="'loss': ([0-9.]+)"),),
            max_run_seconds=60,
        )
    )
    source = {"S3DataType": "S3Prefix", "S3Uri": "file:///data/train", "S3DataDistributionType": "FullyReplicated"}
    assert request == {
        "TrainingJobName": "job",
        "AlgorithmSpecification": {
            "TrainingImage": "local",
            "TrainingInputMode": "File",
            "EnableSageMakerMetricsTimeSeries": True,
            "MetricDefinitions": [{"Name": "loss", "Regex": "'loss': ([0-9.]+)"}],
        },
        "RoleArn": "arn:aws:iam::000000000000:role/local",
        "HyperParameters": {
            "model": '"a b"',
            "epochs": "3",
            "rate": "4.875e-05",
            "fp16": "true",
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": '"/source"',
            "sagemaker_container_log_level": "20",
            "sagemaker_job_name": '"job"',
            "sagemaker_region": '"local"',
        },
        "InputDataConfig": [{"ChannelName": "train", "DataSource": {"S3DataSource": source}}],
        "OutputDataConfig": {"S3OutputPath": "/out"},
        "ResourceConfig": {"InstanceType": "local", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        "CheckpointConfig": {"S3Uri": "/kept"},
        "ProfilerConfig": {"DisableProfiler": True},
        "Environment": {"A": "1"},
        "Tags": [{"Key": "team", "Value": "x"}],
    }


GOLDENS: dict[str, dict[str, Any]] = {
    "squad-albert-native": {},
    "squad-albert-trcomp": {"compiler": "trcomp"},
    "emotion-bert-trcomp": {"compiler": "trcomp"},
    "sst2-gpt2-trcomp-xla": {"compiler": "trcomp", "devices": 4},
    "sst2-gpt2-native-ddp": {"launcher": "smddp", "devices": 4},
    "reviews-distilbert-smddp": {"launcher": "smddp", "devices": 8},
    "squad-bert-large-smddp": {"launcher": "smddp", "devices": 8},
    "mnli-roberta-large-smp": {
        "launcher": "smp",
        "devices": 8,
        "model_parallel": {
            "microbatches": 4,
            "placement_strategy": "spread",
            "pipeline": "interleaved",
            "optimize": "speed",
            "partitions": 4,
            "ddp": True,
        },
    },
    "spot-distilbert": {"spot": True, "max_wait_seconds": 3600},
}
"""What each reference workload asks for beyond what its request tells by itself."""


def test_every_golden_request_is_compared(shared: Path) -> None:
    assert sorted(GOLDENS) == sorted(path.stem for path in (shared / "golden").glob("*.json"))


@pytest.mark.parametrize("name", sorted(GOLDENS))
def test_as_the_sdk_sends_it(shared: Path, name: str) -> None:
    # The placeholder would not be allowed as a name.
    golden = json.loads((shared / "golden" / f"{name}.json").read_text().replace("JOB_NAME", "job"))
    assert build(as_spec(golden, **GOLDENS[name])) == without_observers(golden)


def without_observers(golden: dict[str, Any]) -> dict[str, Any]:
    """The one intended difference: the debugger and the profiler, which the SDK starts unless it is told not to.

    They slow training down, the Training Compiler's above all, and take a quota of processing jobs.
    """
    kept = {name: value for name, value in golden.items() if name != "DebugHookConfig"}
    return kept | {"ProfilerConfig": {"DisableProfiler": True}}


def as_spec(golden: dict[str, Any], **asked: Any) -> JobSpec:
    """Return the spec of which `golden` is the request."""
    algorithm, resources = golden["AlgorithmSpecification"], golden["ResourceConfig"]
    hyperparameters = toolkit.decoded(golden["HyperParameters"])
    own = {name: v for name, v in toolkit.user_hyperparameters(hyperparameters).items() if name != "mp_parameters"}
    return spec(
        name=golden["TrainingJobName"],
        hyperparameters=own,
        channels={
            each["ChannelName"]: each["DataSource"]["S3DataSource"]["S3Uri"]
            for each in golden.get("InputDataConfig", [])
        },
        source_uri=hyperparameters["sagemaker_submit_directory"],
        program=hyperparameters["sagemaker_program"],
        output_uri=golden["OutputDataConfig"]["S3OutputPath"],
        checkpoint_uri=golden.get("CheckpointConfig", {}).get("S3Uri"),
        image=algorithm["TrainingImage"],
        role_arn=golden["RoleArn"],
        region=hyperparameters["sagemaker_region"],
        instance_type=resources["InstanceType"],
        instance_count=resources["InstanceCount"],
        volume_gib=resources["VolumeSizeInGB"],
        max_run_seconds=golden["StoppingCondition"]["MaxRuntimeInSeconds"],
        metric_definitions=tuple(
            MetricDefinition(name=each["Name"], regex=each["Regex"]) for each in algorithm.get("MetricDefinitions", [])
        ),
        **asked,
    )


def launchers(**fields: Any) -> dict[str, str]:
    usual = build(spec())["HyperParameters"]
    return {key: value for key, value in build(spec(**fields))["HyperParameters"].items() if key not in usual}


def test_compilers_and_launchers() -> None:
    off = {"sagemaker_training_compiler_enabled": "false", "sagemaker_training_compiler_debug_mode": "false"}
    assert launchers(compiler="none") == launchers(compiler="inductor") == {}
    assert launchers(compiler="trcomp-off") == off
    assert launchers(compiler="trcomp") == off | {"sagemaker_training_compiler_enabled": "true"}
    xla = launchers(compiler="trcomp", devices=4, instance_type="ml.g4dn.12xlarge")
    assert xla["sagemaker_pytorch_xla_multi_worker_enabled"] == "true"
    torchrun = {"sagemaker_torch_distributed_enabled": "true", "sagemaker_instance_type": '"ml.g5.12xlarge"'}
    assert launchers(devices=4, instance_type="ml.g5.12xlarge") == torchrun
    assert launchers(instance_count=2, instance_type="ml.g5.12xlarge") == torchrun
    assert launchers(devices=2)["sagemaker_mpi_num_of_processes_per_host"] == "2"
    ddp = {"sagemaker_pytorch_ddp_enabled": "true", "sagemaker_instance_type": '"ml.p4d.24xlarge"'}
    assert launchers(devices=8, launcher="pytorchddp", instance_type="ml.p4d.24xlarge") == ddp
    debugged = launchers(compiler="trcomp", compiler_debug=True)
    assert debugged["sagemaker_training_compiler_debug_mode"] == "true"
    off_xla = launchers(compiler="trcomp-off", devices=4, instance_type="ml.g4dn.12xlarge")
    assert off_xla == off | {"sagemaker_pytorch_xla_multi_worker_enabled": "true"}
    smddp = launchers(devices=8, launcher="smddp", instance_type="ml.p3.16xlarge", mpi_options="-verbose")
    assert smddp["sagemaker_distributed_dataparallel_custom_mpi_options"] == '"-verbose"'


def test_a_network_of_the_users_with_its_keys() -> None:
    request = build(
        spec(
            instance_type="ml.g5.xlarge",
            subnets=("subnet-1", "subnet-2"),
            security_groups=("sg-1",),
            isolate_network=True,
            encrypt_traffic=True,
            volume_key="alias/disks",
            output_key="alias/artifacts",
        )
    )
    assert request["VpcConfig"] == {"Subnets": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}
    assert request["EnableNetworkIsolation"] is request["EnableInterContainerTrafficEncryption"] is True
    assert request["ResourceConfig"]["VolumeKmsKeyId"] == "alias/disks"
    assert request["OutputDataConfig"] == {"S3OutputPath": "/out", "KmsKeyId": "alias/artifacts"}


def test_machines_that_stay_and_machines_to_fall_back_on() -> None:
    request = build(
        spec(instance_type="ml.g5.xlarge", fallback_instance_types=("ml.g4dn.xlarge",), keep_alive_seconds=600)
    )
    assert request["ResourceConfig"] == {
        "InstancePreferences": [{"InstanceType": "ml.g5.xlarge"}, {"InstanceType": "ml.g4dn.xlarge"}],
        "InstanceCount": 1,
        "VolumeSizeInGB": 30,
        "KeepAlivePeriodInSeconds": 600,
    }


def test_spot_waits_as_long_as_it_runs_where_nothing_is_said() -> None:
    request = build(spec(spot=True, max_run_seconds=60))
    assert request["EnableManagedSpotTraining"] is True
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60}


def test_what_boto3_takes(shared: Path) -> None:
    """Each request is one that boto3's own model of the API finds nothing wrong with."""
    model = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
    shape = model.operation_model("CreateTrainingJob").input_shape
    everything = spec(
        instance_type="ml.g5.xlarge",
        fallback_instance_types=("ml.g4dn.xlarge",),
        keep_alive_seconds=600,
        subnets=("subnet-1",),
        security_groups=("sg-1",),
        isolate_network=True,
        encrypt_traffic=True,
        volume_key="alias/a",
        output_key="alias/b",
        spot=True,
        checkpoint_uri="s3://bucket/kept",
        channels={"train": "s3://bucket/train"},
        environment={"A": "1"},
        tags={"team": "x"},
        metric_definitions=(MetricDefinition(name="loss", regex="'loss': ([0-9.]+)"),),
    )
    report = ParamValidator().validate(build(everything), shape)
    assert not report.has_errors(), report.generate_report()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hyperparameters": {"rate": float("nan")}}, "Hyperparameter 'rate' is nan; it must be a finite number."),
        ({"hyperparameters": {"sagemaker_x": 1}}, "'sagemaker_x' is reserved"),
        ({"hyperparameters": {"a b": 1}}, "Name 'a b' in hyperparameters is not allowed"),
        ({"hyperparameters": {"a": "x" * 2499}}, "Value of 'a' in hyperparameters has 2501 characters; 2500"),
        ({"hyperparameters": {"a": "\0"}}, "Value of 'a' in hyperparameters holds a NUL"),
        ({"hyperparameters": {"a": "\ud800"}}, "Value of 'a' in hyperparameters holds a NUL or half"),
        ({"hyperparameters": {f"h{n}": n for n in range(96)}}, "There are 101 hyperparameters; 100 are allowed."),
        ({"environment": {"1A": "x"}}, "Name '1A' in environment is not allowed"),
        ({"environment": {"A": "x" * 513}}, "Value of 'A' in environment has 513 characters; 512"),
        ({"channels": {"a/b": "/x"}}, "Name 'a/b' in channels is not allowed"),
        ({"tags": {"a": "x" * 257}}, "Value of 'a' in tags has 257 characters"),
        ({"metric_definitions": (MetricDefinition(name="m", regex="("),)}, "Metric 'm': '\\(' is no regular"),
        ({"metric_definitions": (MetricDefinition(name="m", regex="x"),)}, "Metric 'm': 'x' has 0 groups"),
    ],
)
def test_what_the_service_would_refuse(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(spec(**fields))


@given(st.text(max_size=50) | st.integers() | st.floats() | st.booleans())
def test_a_value_is_refused_or_arrives_as_it_is(value: str | int | float | bool) -> None:
    try:
        request = build(spec(hyperparameters={"value": value}))
    except InputError:
        return
    assert toolkit.decoded(request["HyperParameters"])["value"] == value
    words = toolkit.arguments({"value": value})
    assert [word.encode() for word in words] == [b"--value", str(value).encode()]
