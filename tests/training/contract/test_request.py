"""The request of a local job, field by field, and the errors for values that no service accepts.

`test_goldens.py` and `test_options.py` test requests to SageMaker."""

from __future__ import annotations

from typing import Any

import pytest

from training.contract.errors import InputError
from training.contract.job_spec import JobSpec, MetricDefinition
from training.contract.request import build
from training.services.supervision import toolkit


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
        ({"hyperparameters": {"a": "\ud800"}}, "Value of 'a' in hyperparameters contains a NUL or an unpaired"),
        ({"metric_definitions": (MetricDefinition(name="m", regex="("),)}, "Metric 'm': '\\(' is not a regular"),
        ({"metric_definitions": (MetricDefinition(name="m", regex="x"),)}, "Metric 'm': 'x' has 0 groups"),
    ],
)
def test_a_value_that_no_service_accepts_is_an_input_error(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(spec(**fields))


GOLDEN: dict[str, tuple[Any, str]] = {
    "text": ("a b", '"a b"'),
    "quotes": ('it\'s "here"', '"it\'s \\"here\\""'),
    "unicode": ("é\N{GRINNING FACE}", '"\\u00e9\\ud83d\\ude00"'),
    "lines": ("a\nb", '"a\\nb"'),
    "empty": ("", '""'),
    "whole": (3, "3"),
    "rate": (4.875e-05, "4.875e-05"),
    "large": (1e22, "1e+22"),
    "yes": (True, "true"),
    "no": (False, "false"),
    "list": (["a", 1, True, None, [0.5]], '["a", 1, true, null, [0.5]]'),
    "none": ([], "[]"),
    "map": ({"b": {"c": [None]}, "a": 1}, '{"b": {"c": [null]}, "a": 1}'),
    "digits": ("1", '"1"'),
    "word": ("null", '"null"'),
}
"""Hyperparameter to (its value, the text that the SDK sends)."""


def test_every_kind_of_value_is_encoded_as_by_the_sdk() -> None:
    values = {name: value for name, (value, _) in GOLDEN.items()}
    spec = JobSpec(name="job", hyperparameters=values, channels={}, source_uri="/source", output_uri="/out")
    sent = {name: text for name, text in build(spec)["HyperParameters"].items() if name in GOLDEN}
    assert sent == {name: text for name, (_, text) in GOLDEN.items()}
    assert toolkit.decoded(sent) == {name: value for name, (value, _) in GOLDEN.items()}


@pytest.mark.parametrize("value", [[float("nan")], {"a": {"b": float("inf")}}])
def test_values_that_are_not_json_are_refused_at_any_depth(value: Any) -> None:
    spec = JobSpec(name="job", hyperparameters={"h": value}, channels={}, source_uri="/source", output_uri="/out")
    with pytest.raises(InputError, match=r"Hyperparameter 'h' is (nan|inf); it must be a finite number"):
        build(spec)


DAY = 86_400


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"max_run_seconds": 60}, None),
        ({"max_run_seconds": 60, "spot": True}, 60 + DAY),
        ({"max_run_seconds": 60, "spot": True, "max_wait_seconds": 90}, 90),
        # 28 days are the longest run of a job.
        ({"max_run_seconds": 28 * DAY - 1, "spot": True}, 28 * DAY),
        ({"max_run_seconds": 29 * DAY, "spot": True}, 29 * DAY),
    ],
)
def test_a_spot_job_may_wait_longer_than_it_runs(fields: dict[str, Any], seconds: int | None) -> None:
    spec = JobSpec(name="a", hyperparameters={}, channels={}, source_uri="s3://b/s", output_uri="s3://b/o", **fields)
    assert spec.longest_wait_seconds == seconds
