"""A request that SageMaker accepts."""

from __future__ import annotations

from typing import Any

from tests.support.aws.account import ROLE


def training_job() -> dict[str, Any]:
    """Return a request for CreateTrainingJob, to change."""
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/data/"}
    return {
        "TrainingJobName": "job",
        "AlgorithmSpecification": {
            "TrainingImage": "image",
            "TrainingInputMode": "File",
            "MetricDefinitions": [{"Name": "loss", "Regex": "loss ([0-9.]+)"}],
        },
        "RoleArn": ROLE,
        "HyperParameters": {"epochs": "3"},
        "InputDataConfig": [{"ChannelName": "train", "DataSource": {"S3DataSource": source}}],
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/output"},
        "ResourceConfig": {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "Environment": {"A": "1"},
        "Tags": [{"Key": "team", "Value": "nlp"}],
    }
