"""The request of a local job, field by field, and the errors for values that the API would reject.

`test_goldens.py` and `test_options.py` test requests to SageMaker.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.contract.errors import InputError
from training.contract.job_spec import JobSpec, MetricDefinition
from training.contract.request import build
from training.services.local import toolkit


def spec(**fields: Any) -> JobSpec:
    defaults = {"name": "job", "hyperparameters": {}, "channels": {}, "source_uri": "/source", "output_uri": "/out"}
    return JobSpec(**{**defaults, **fields})


def test_the_request_of_a_local_job_has_every_field() -> None:
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


def test_the_number_of_local_processes_is_the_number_of_devices() -> None:
    hyperparameters = toolkit.decoded(build(spec(devices=2))["HyperParameters"])
    assert hyperparameters["sagemaker_torch_distributed_enabled"] is True
    assert hyperparameters["sagemaker_mpi_num_of_processes_per_host"] == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hyperparameters": {"rate": float("nan")}}, "Hyperparameter 'rate' is nan; it must be a finite number."),
        ({"hyperparameters": {"sagemaker_x": 1}}, "'sagemaker_x' is reserved"),
        ({"hyperparameters": {"a b": 1}}, "Name 'a b' in hyperparameters is not allowed"),
        ({"hyperparameters": {"a": "x" * 2499}}, "Value of 'a' in hyperparameters has 2501 characters; at most 2500"),
        ({"hyperparameters": {"a": "\0"}}, "Value of 'a' in hyperparameters contains a NUL"),
        ({"hyperparameters": {"a": "\ud800"}}, "Value of 'a' in hyperparameters contains a NUL or an unpaired"),
        (
            {"hyperparameters": {f"h{n}": n for n in range(96)}},
            "101 hyperparameters; at most 100 are allowed.",
        ),
        ({"environment": {"1A": "x"}}, "Name '1A' in environment is not allowed"),
        ({"environment": {"A": "x" * 513}}, "Value of 'A' in environment has 513 characters; at most 512"),
        ({"channels": {"a/b": "/x"}}, "Name 'a/b' in channels is not allowed"),
        ({"tags": {"a": "x" * 257}}, "Value of 'a' in tags has 257 characters"),
        ({"metric_definitions": (MetricDefinition(name="m", regex="("),)}, "Metric 'm': '\\(' is not a regular"),
        ({"metric_definitions": (MetricDefinition(name="m", regex="x"),)}, "Metric 'm': 'x' has 0 groups"),
    ],
)
def test_a_value_that_the_api_would_reject_is_an_input_error(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(spec(**fields))


@given(st.text(max_size=50) | st.integers() | st.floats() | st.booleans())
def test_a_hyperparameter_is_rejected_or_reaches_the_script_unchanged(value: str | int | float | bool) -> None:
    try:
        request = build(spec(hyperparameters={"value": value}))
    except InputError:
        return
    assert toolkit.decoded(request["HyperParameters"])["value"] == value
    arguments = toolkit.arguments({"value": value})
    assert [argument.encode() for argument in arguments] == [b"--value", str(value).encode()]
