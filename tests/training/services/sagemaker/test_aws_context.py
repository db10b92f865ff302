"""What a team sets under `aws`, and the policies in docs/aws.md, which allow exactly the calls that are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.planning.plan import cost_tags
from tests.conftest import ROOT
from tests.support.aws.account import ACCOUNT, BUCKET, Account
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
    "servicequotas:ListServiceQuotas": "a plan's check calls it: see test_quotas_are_asked_before_an_upload",
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
        "{ResourceConfig: {InstanceGroups: [{InstanceGroupName: a, InstanceType: ml.g5.xlarge}]}}",
        "aws.request.ResourceConfig.InstanceGroups must be a list of mappings with InstanceGroupName, InstanceType and",
    ),
    (
        "{ResourceConfig: {InstanceGroups: [{InstanceGroupName: a, InstanceType: ml.g5.xlarge, InstanceCount: 1}]}}",
        "aws.request.ResourceConfig.InstanceGroups is for scripts: our own training runs on equal instances.",
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


def planned(terminal: Terminal, verb: str = "train", **fields: object) -> dict[str, Any]:
    """Return the plan of a verb, by default that of the only job of `train`."""
    options = [word for name, value in {**terminal.fields, **fields}.items() for word in (f"--{name}", str(value))]
    done = terminal.run("plan", verb, *options, "--format", "json")
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
    assert "aws.job_prefix" in refused(terminal, **{"aws.job_prefix": 41 * "n"})
    assert "aws.exact_checkpoint_uri needs aws.checkpoint_uri" in refused(
        terminal, **{"aws.exact_checkpoint_uri": "true"}
    )
    [job] = planned(terminal, **places, **{"aws.exact_checkpoint_uri": "true"})["jobs"]
    assert job["request"]["CheckpointConfig"]["S3Uri"] == "s3://team-output/kept"


def test_only_the_job_of_train_has_an_exact_folder_for_checkpoints(terminal: Terminal) -> None:
    fields = {"aws.checkpoint_uri": "s3://team/kept", "aws.exact_checkpoint_uri": "true", "save_strategy": "epoch"}
    fields |= {"aws.job_prefix": 40 * "n", "compare.arms": "[{compiler: none}, {compiler: inductor, batch_size: 8}]"}
    jobs = planned(terminal, verb="compare", **fields)["jobs"]
    names = [job["request"]["TrainingJobName"] for job in jobs]
    assert len(set(names)) == len(names) > 2
    assert {len(name) for name in names} <= set(range(55, 64))
    assert all(name.startswith(40 * "n" + "-") for name in names)
    folders = [job["request"]["CheckpointConfig"]["S3Uri"] for job in jobs]
    assert folders == [f"s3://team/kept/{name}" for name in names]


def test_jobs_have_tags_for_cost_allocation(terminal: Terminal) -> None:
    arms = "{small: {batch_size: 4}, large: {batch_size: 8}}"
    jobs = planned(terminal, verb="compare", **{"compare.arms": arms, "aws.tags": "{team: nlp}"})["jobs"]
    tags = [{tag["Key"]: tag["Value"] for tag in job["request"]["Tags"]} for job in jobs]
    assert {each["trainfare:arm"] for each in tags} == {"small", "large"}
    for job, each in zip(jobs, tags, strict=True):
        assert each["trainfare:experiment"] == "demo"
        assert job["request"]["TrainingJobName"].startswith(each["trainfare:group"] + "-")
        assert each["team"] == "nlp"
    [job] = planned(terminal, **{"aws.cost_tags": "false"})["jobs"]
    assert "Tags" not in job["request"]
    assert cost_tags("mine", "", "a, b × 2") == {"trainfare:experiment": "mine", "trainfare:arm": "a_ b _ 2"}


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


def test_jobs_of_a_training_plan_cost_nothing_more(terminal: Terminal) -> None:
    arn = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-plan/plan"
    plan = planned(terminal, **{"aws.request": f"{{ResourceConfig: {{TrainingPlanArn: '{arn}'}}}}", "max_usd": 1})
    [job] = plan["jobs"]
    assert job["request"]["ResourceConfig"]["TrainingPlanArn"] == arn
    assert (job["price"]["usd_per_hour"], job["price"]["source"]) == (0.0, "training plan")
    assert plan["worst_case"]["usd"] == 0.0
    assert plan["worst_case"]["billable_instance_seconds"] == 1_950  # a budget in seconds still counts them


GROUPS = """
script:
  source: code
  channels:
    train: {uri: rows, mode: Pipe, compression: Gzip, record_wrapper: RecordIO, shuffle_seed: 0, content_type: text/csv}
    images: {uri: rows, instance_groups: [feed]}
  metrics: {"train:loss": {pattern: "loss=([0-9.]+)", better: lower}}
service: sagemaker
machine: {instance_type: ml.g5.12xlarge, instance_count: 2, devices: 4, max_run_seconds: 850, launcher: torchrun}
aws:
  role: trainer
  prices: prices.json
  request:
    ResourceConfig:
      InstanceGroups:
      - {InstanceGroupName: train, InstanceType: ml.g5.12xlarge, InstanceCount: 2}
      - {InstanceGroupName: feed, InstanceType: ml.c5.xlarge, InstanceCount: 3}
"""


def test_all_instance_groups_count(terminal: Terminal, account: Account, tmp_path: Path) -> None:
    for name in ("code", "rows"):
        (tmp_path / name).mkdir()
    (tmp_path / "code" / "train.py").touch()
    (tmp_path / "rows" / "a.csv").write_text("1")
    prices = {"ml.g5.12xlarge": 7.2, "ml.c5.xlarge": 0.36}
    (tmp_path / "prices.json").write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": prices}))
    (tmp_path / "own.yaml").write_text(GROUPS)
    done = terminal.run("plan", "train", "--experiment", "own.yaml", "--format", "json")
    plan = json.loads(done.out)
    assert plan["refusals"] == []
    request = plan["jobs"][0]["request"]
    account.api.check("CreateTrainingJob", request)
    assert {"InstanceType", "InstanceCount"}.isdisjoint(request["ResourceConfig"])
    images, train = request["InputDataConfig"]
    assert images["DataSource"]["S3DataSource"]["InstanceGroupNames"] == ["feed"]
    assert (train["CompressionType"], train["RecordWrapperType"]) == ("Gzip", "RecordIO")
    assert (train["ShuffleConfig"], train["ContentType"]) == ({"Seed": 0}, "text/csv")
    assert json.loads(request["HyperParameters"]["sagemaker_distribution_instance_groups"]) == ["train"]
    [metric] = request["AlgorithmSpecification"]["MetricDefinitions"]
    assert metric == {"Name": "train:loss", "Regex": "loss=([0-9.]+)"}
    # 850 s and 150 s to stop and to upload, on 5 instances: 2 at 0.002 USD a second and 3 at 0.0001.
    assert plan["worst_case"]["billable_instance_seconds"] == 5_000
    assert plan["worst_case"]["usd"] == pytest.approx(4.3)
    texts = {
        ("", ""): "2 x ml.g5.12xlarge (4 A10G GPUs with 22 GiB each) and 3 x ml.c5.xlarge (no GPU)",
        (
            "[feed]",
            "[fed]",
        ): "channel 'images' is for the instance group 'fed', which aws.request.ResourceConfig.Instance",
        ("instance_count: 2", "instance_count: 1"): "machine has 1 x ml.g5.12xlarge, which is no group of aws.request",
    }
    for change, text in texts.items():
        (tmp_path / "own.yaml").write_text(GROUPS.replace(*change))
        assert text in " ".join(terminal.run("plan", "train", "--experiment", "own.yaml").out.split())
