"""Test names, places and further members of a request, which a team sets under `aws`."""

from __future__ import annotations

import json
from typing import Any

from tests.support.aws.account import Account
from tests.training.services.sagemaker.conftest import Terminal


def planned(terminal: Terminal, **fields: object) -> dict[str, Any]:
    """Return the plan of the only job of `train`."""
    options = [word for name, value in {**terminal.fields, **fields}.items() for word in (f"--{name}", str(value))]
    done = terminal.run("plan", "train", *options, "--format", "json")
    plan: dict[str, Any] = json.loads(done.out)
    assert plan["refusals"] == [], plan["refusals"]
    return plan


def refused(terminal: Terminal, **fields: object) -> str:
    done = terminal("train", fields)
    assert done.code == 2
    assert terminal.runs() == []
    return done.error


def test_a_job_has_the_name_and_the_places_that_the_team_wants(terminal: Terminal, account: Account) -> None:
    for bucket in ("team-output", "team-source"):
        account.clients["s3"].create_bucket(Bucket=bucket)
    places = {
        "aws.output_uri": "s3://team-output/models/",
        "aws.checkpoint_uri": "s3://team-output/kept",
        "aws.source_uri": "s3://team-source/code",
        "aws.job_prefix": "team-nlp",
        "save_strategy": "epoch",
    }
    [job] = planned(terminal, **places)["jobs"]
    request = job["request"]
    name = request["TrainingJobName"]
    assert name.startswith("team-nlp-")
    assert len(name) <= 63
    assert request["OutputDataConfig"]["S3OutputPath"] == "s3://team-output/models"
    assert request["CheckpointConfig"]["S3Uri"] == f"s3://team-output/kept/{name}"
    source = json.loads(request["HyperParameters"]["sagemaker_submit_directory"])
    assert source.startswith("s3://team-source/code/source/")
    assert "aws.job_prefix" in refused(terminal, **{"aws.job_prefix": "Team_NLP"})


def test_further_members_are_laid_over_the_request_last(terminal: Terminal) -> None:
    members = (
        "{RetryStrategy: {MaximumRetryAttempts: 2}, ProfilerConfig: null, "
        "AlgorithmSpecification: {TrainingImageConfig: {TrainingRepositoryAccessMode: Platform}}}"
    )
    plan = planned(terminal, **{"aws.request": members})
    request = plan["jobs"][0]["request"]
    assert request["RetryStrategy"] == {"MaximumRetryAttempts": 2}
    assert "ProfilerConfig" not in request
    algorithm = request["AlgorithmSpecification"]
    assert algorithm["TrainingImageConfig"] == {"TrainingRepositoryAccessMode": "Platform"}
    assert algorithm["TrainingInputMode"] == "File"  # what no change names stays
    assert any("aws.request sets RetryStrategy.MaximumRetryAttempts" in note for note in plan["notes"])


def test_instance_groups_replace_the_type_and_its_count(terminal: Terminal) -> None:
    groups = (
        "{ResourceConfig: {InstanceGroups: ["
        "{InstanceType: ml.g5.xlarge, InstanceCount: 2, InstanceGroupName: gpus}, "
        "{InstanceType: ml.c5.xlarge, InstanceCount: 1, InstanceGroupName: cpus}]}}"
    )
    plan = planned(terminal, **{"aws.request": groups})
    resources = plan["jobs"][0]["request"]["ResourceConfig"]
    assert sorted(resources) == ["InstanceGroups", "VolumeSizeInGB"]
    assert plan["jobs"][0]["price"] is None
    message = refused(terminal, **{"aws.request": groups, "max_usd": 1})
    assert "max_usd cannot be combined with aws.request.ResourceConfig.InstanceGroups" in message


REFUSED = [
    ("{TrainingJobName: mine}", "aws.request.TrainingJobName is set by aws.job_prefix: use that instead"),
    (
        "{StoppingCondition: {MaxRuntimeInSeconds: 9}}",
        "aws.request.StoppingCondition.MaxRuntimeInSeconds is set by machine.max_run_seconds: use that instead",
    ),
    ("{ResourceConfig: null}", "aws.request.ResourceConfig cannot be removed: fields of the experiment set parts"),
    (
        "{RetryStrategy: {MaximumRetryAttempts: 99}}",
        "aws.request: 99 is not allowed by SageMaker: at most 30 is allowed (RetryStrategy.MaximumRetryAttempts).",
    ),
    ("{RetryStrategies: {}}", "SageMaker does not know this member (RetryStrategies)."),
]


def test_members_that_cannot_be_set_are_refused(terminal: Terminal) -> None:
    for members, message in REFUSED:
        assert message in refused(terminal, **{"aws.request": members})
