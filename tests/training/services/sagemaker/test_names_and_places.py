"""Test names, places and further members of a request, which a team sets under `aws`."""

from __future__ import annotations

import configparser
import json
from pathlib import Path
from typing import Any

import pytest

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


def test_names_begin_with_the_prefix_of_the_team(terminal: Terminal) -> None:
    plan = planned(terminal, **{"aws.job_prefix": "team-nlp"})
    [job] = plan["jobs"]
    assert job["request"]["TrainingJobName"].startswith("team-nlp-")
    assert len(job["request"]["TrainingJobName"]) <= 63
    assert "aws.job_prefix" in refused(terminal, **{"aws.job_prefix": "Team_NLP"})


def test_a_job_reads_and_writes_where_the_team_wants(terminal: Terminal, account: Account) -> None:
    for bucket in ("team-output", "team-source"):
        account.clients["s3"].create_bucket(Bucket=bucket)
    places = {
        "aws.output_uri": "s3://team-output/models/",
        "aws.checkpoint_uri": "s3://team-output/kept",
        "aws.source_uri": "s3://team-source/code",
        "aws.job_prefix": "team",
        "save_strategy": "epoch",
    }
    done = terminal("train", places)
    assert (done.code, done.error) == (0, "")
    [name] = account.jobs.names()
    request = account.jobs.request(name)
    assert name.startswith("team-")
    assert request["OutputDataConfig"]["S3OutputPath"] == "s3://team-output/models"
    assert request["CheckpointConfig"]["S3Uri"] == f"s3://team-output/kept/{name}"
    source = json.loads(request["HyperParameters"]["sagemaker_submit_directory"])
    assert source.startswith("s3://team-source/code/source/")
    keys = [each["Key"] for each in account.clients["s3"].list_objects_v2(Bucket="team-output")["Contents"]]
    assert any(key.startswith(f"models/{name}/output/") for key in keys)
    assert any(key.startswith(f"kept/{name}/") for key in keys)


def test_further_members_are_laid_over_the_request_last(terminal: Terminal, account: Account) -> None:
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
    assert terminal("train", {"aws.request": members}).code == 0
    [name] = account.jobs.names()
    assert account.jobs.request(name)["RetryStrategy"] == {"MaximumRetryAttempts": 2}


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


@pytest.mark.parametrize(
    ("members", "message"),
    [
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
    ],
)
def test_members_that_cannot_be_set_are_refused(terminal: Terminal, members: str, message: str) -> None:
    assert message in refused(terminal, **{"aws.request": members})


def test_the_credentials_are_those_of_the_profile(
    terminal: Terminal, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configparser.ConfigParser()
    config["profile team"] = {
        "aws_access_key_id": account.variables["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": account.variables["AWS_SECRET_ACCESS_KEY"],
        "region": "us-east-1",
    }
    with (tmp_path / "config").open("w") as file:
        config.write(file)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert planned(terminal, **{"aws.profile": "team"})["would_start"]
    unknown = terminal("train", {"aws.profile": "other"})
    assert unknown.code == 1
    assert "The config profile (other) could not be found" in unknown.error
    assert "set aws.profile or AWS_PROFILE to a profile" in unknown.error
