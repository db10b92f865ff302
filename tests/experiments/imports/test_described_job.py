"""Plans for jobs that others started, from their descriptions."""

from __future__ import annotations

from typing import Any

from experiments.running.attach_job import described_job


def description(name: str, **channels: str) -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "TrainingJobArn": f"arn:aws:sagemaker:us-east-1:111122223333:training-job/{name}",
        "AlgorithmSpecification": {"TrainingImage": "image:1"},
        "RoleArn": "arn:aws:iam::111122223333:role/trainer",
        "OutputDataConfig": {"S3OutputPath": "s3://b/output"},
        "InputDataConfig": [
            {"ChannelName": channel, "DataSource": {"S3DataSource": {"S3Uri": uri}}}
            for channel, uri in channels.items()
        ],
    }


def data_key(name: str, **channels: str) -> str:
    return described_job(description(name, **channels), None, []).data_key


def test_the_source_in_a_channel_is_not_data() -> None:
    """SageMaker's SDK uploads the source of each job anew."""
    first = data_key("job-1", train="s3://b/rows", code="s3://b/job-1/code", sm_drivers="s3://b/job-1/sm_drivers")
    assert first == data_key("job-2", train="s3://b/rows", code="s3://b/job-2/code", sm_drivers="s3://b/job-2/sm")
    assert first != data_key("job-3", train="s3://b/others", code="s3://b/job-1/code")
