"""What a team sets under `aws`, and the policies in docs/aws.md, which allow exactly the calls that are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.support.aws.account import BUCKET, Account
from tests.support.aws.rights import actions, allowed
from tests.support.services.following import RUNS_UNTIL_STOPPED, ended, running
from tests.support.services.harness import SageMakerHarness
from tests.training.services.sagemaker.conftest import Terminal
from training.contract.errors import JobExists
from training.contract.job_spec import JobSpec
from training.contract.request import build
from training.services.launcher import submit
from training.services.sagemaker.aws_context import open_aws_context
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.service import SageMakerService

NOT_RECORDED = {
    "iam:PassRole": "checked by SageMaker in CreateTrainingJob",
    "sagemaker:AddTags": "checked by SageMaker in CreateTrainingJob if the request has tags",
    "s3:AbortMultipartUpload": "called if a multipart upload fails",
    "pricing:GetProducts": "moto has no price list; the call is in training/services/sagemaker/prices.py",
}
"""Permissions that no recorded call requires, each with its reason."""
CONFIGURATION = """
SchemaVersion: '1.0'
SageMaker:
  PythonSDK: {Modules: {Session: {DefaultS3ObjectKeyPrefix: team-a}}}
  TrainingJob:
    Tags: [{Key: team, Value: everybody}, {Key: cost-centre, Value: A12}]
    OutputDataConfig: {KmsKeyId: output-key}
    ResourceConfig: {VolumeKmsKeyId: volume-key}
"""
OUTPUT_KEY_ACTIONS = {
    "PutObject": {"kms:GenerateDataKey"},
    # S3 reads the parts again to join them, and trainfare reads the job's output.
    "CreateMultipartUpload": {"kms:GenerateDataKey", "kms:Decrypt"},
}
"""Permissions for a key that a call of S3 names: Amazon S3 User Guide, "Uploading large objects with SSE-KMS"."""
REFUSED = [
    ("{TrainingJobName: mine}", "aws.request.TrainingJobName is set by aws.job_prefix: use that instead"),
    (
        "{StoppingCondition: {MaxRuntimeInSeconds: 9}}",
        "aws.request.StoppingCondition.MaxRuntimeInSeconds is set by machine.max_run_seconds: use that instead",
    ),
    (
        "{ResourceConfig: {InstanceGroups: []}}",
        "aws.request.ResourceConfig.InstanceGroups is set by machine.instance_type: use that instead",
    ),
    ("{ResourceConfig: null}", "aws.request.ResourceConfig cannot be removed: fields of the experiment set parts"),
    (
        "{RetryStrategy: {MaximumRetryAttempts: 99}}",
        "The request 99 is not allowed by SageMaker (RetryStrategy.MaximumRetryAttempts): at most 30 is allowed.",
    ),
    ("{RetryStrategies: {}}", "(RetryStrategies): SageMaker does not know this member."),
]


def test_the_launcher_policy_allows_exactly_the_calls_of_a_launcher(account: Account, tmp_path: Path) -> None:
    harness = SageMakerHarness(tmp_path, account)
    account.clients["s3"].delete_bucket(Bucket=account.clients["s3"].list_buckets()["Buckets"][0]["Name"])
    account.forget_calls()
    context = open_aws_context({"role": "trainer"})
    large = tmp_path / "large"
    large.mkdir()
    (large / "file").write_bytes(b"0" * (65 * 2**20))
    context.storage.put_channel(large, "data")
    service = SageMakerService(context.clients)
    service.pauses_seconds, service.log_delay_seconds = (0.05, 0.5), 0.0
    request = harness.request(RUNS_UNTIL_STOPPED)
    job = submit(service, request)
    running(job)
    with pytest.raises(JobExists):
        service.create(request)
    service.jobs()
    job.stop()
    ended(job)
    service.fetch_output("job", "events.jsonl")
    assert account.actions == set(actions("launcher")) - set(NOT_RECORDED)


@pytest.fixture
def configured(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    """An account whose user has a configuration of SageMaker's SDK."""
    (tmp_path / "config.yaml").write_text(CONFIGURATION)
    monkeypatch.setenv("SAGEMAKER_USER_CONFIG_OVERRIDE", str(tmp_path / "config.yaml"))
    account.make_role()
    return account


def test_objects_below_the_prefix_of_the_configuration_are_allowed(configured: Account, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows").write_text("x")
    context = open_aws_context({"role": "trainer"})
    context.storage.put_channel(tmp_path / "data", "data")
    context.storage.put_source(tmp_path / "data")
    paths = [call.partition(" ")[2] for _, call in configured.calls if call.startswith(("PUT /", "HEAD /"))]
    keys = [path.removeprefix(f"/{BUCKET}/") for path in paths if path.count("/") > 1]
    assert len(keys) > 3
    for key in keys:
        resource = f"arn:aws:s3:::{BUCKET}/{key}"
        assert allowed("s3:PutObject", resource, BUCKET=BUCKET, PREFIX="team-a/", PARTITION="aws"), key
        assert not allowed("s3:PutObject", resource, BUCKET=BUCKET, PREFIX="", PARTITION="aws"), key


def test_the_policies_can_be_filled_in_for_every_partition_and_have_no_wildcard_action() -> None:
    for partition in ("aws", "aws-cn", "aws-us-gov"):
        values = {"PARTITION": partition, "ACCOUNT": "123456789012", "ROLE": "trainer"}
        assert allowed("iam:PassRole", f"arn:{partition}:iam::123456789012:role/trainer", **values)
        job = f"arn:{partition}:sagemaker:cn-north-1:123456789012:training-job/demo"
        assert allowed("sagemaker:CreateTrainingJob", job, **values)
    text = (ROOT / "docs" / "aws.md").read_text()
    assert "arn:aws:iam" not in text
    assert "arn:aws:s3" not in text
    for name in ("launcher", "job", "keys", "job-keys"):
        assert not [action for action in actions(name) if "*" in action]


def test_the_keys_of_the_configuration_need_the_documented_permissions(configured: Account, tmp_path: Path) -> None:
    """S3 and SageMaker use the keys in the name of the user who makes these calls."""
    large = tmp_path / "large"
    large.mkdir()
    (large / "file").write_bytes(b"0" * (65 * 2**20))
    (large / "small").write_bytes(b"0")
    called: set[str] = set()

    def note(model: Any, params: dict[str, Any], **_: Any) -> None:
        headers = params["headers"]
        if "x-amz-server-side-encryption-aws-kms-key-id" in headers:
            called.update(OUTPUT_KEY_ACTIONS[model.name])

    clients = Clients()
    clients.session.events.register("before-call.s3", note)
    context = open_aws_context({"role": "trainer"}, clients)
    context.storage.put_channel(large, "data")
    spec = context.resolve(
        JobSpec(
            name="job",
            hyperparameters={},
            channels={},
            source_uri="s3://b/s",
            output_uri="s3://b/o",
            # A type without built-in disks: the others refuse a key.
            instance_type="ml.p3.2xlarge",
            image="own.example/image:1",
        )
    )
    request = build(spec)
    assert request["OutputDataConfig"]["KmsKeyId"] == "output-key"
    if "VolumeKmsKeyId" in request["ResourceConfig"]:
        called |= {"kms:CreateGrant", "kms:DescribeKey"}
    assert called == set(actions("keys"))
    # The job's role also encrypts what the job writes: CreateTrainingJob's documentation of OutputDataConfig.
    assert set(actions("job-keys")) == {*called, "kms:Encrypt"}


def test_tags_of_the_configuration_and_of_the_experiment_are_joined(configured: Account) -> None:
    context = open_aws_context({"role": "trainer", "tags": {"team": "nlp", "stage": "test"}}, is_read_only=True)
    assert context.fields["tags"] == {"team": "nlp", "cost-centre": "A12", "stage": "test"}
    assert open_aws_context({"role": "trainer"}, is_read_only=True).fields["tags"] == {
        "team": "everybody",
        "cost-centre": "A12",
    }


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


def test_members_that_cannot_be_set_are_refused(terminal: Terminal) -> None:
    for members, message in REFUSED:
        assert message in refused(terminal, **{"aws.request": members})
