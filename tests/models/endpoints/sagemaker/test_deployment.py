"""Deployment, prediction and deletion of an endpoint through real boto3."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import pytest

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from tests.models.endpoints.sagemaker.conftest import opened
from tests.support.aws.account import BUCKET, Account
from tests.support.aws.hosting import PAGE, Hosted
from training.contract.errors import EndpointFailed, EndpointNotFound, EndpointTaken, InputError, QuotaError
from training.contract.price import Price

Spec = Callable[..., EndpointSpec]
QUESTION = b'{"inputs": "Winter is coming and it will be dark soon."}'


def quiet(_: str) -> None:
    pass


def test_an_endpoint_answers_until_it_is_undeployed(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec
) -> None:
    messages: list[str] = []
    state = endpoints.deploy(spec(lifetime_seconds=3600.0, when_over="delete"), messages.append)
    assert (state.name, state.service, state.status, state.run_id) == ("emotion", "sagemaker", "InService", "0123abc")
    assert (state.machine, state.machines, state.when_over) == ("ml.g4dn.xlarge", 1, "delete")
    assert state.address == "arn:aws:sagemaker:us-east-1:123456789012:endpoint/emotion"
    assert state.price == Price(usd_per_hour=36.0, source="prices.json", date="2026-11-01")
    assert state.usd_so_far(state.created + timedelta(seconds=90)) == pytest.approx(0.9)
    assert state.expires is not None
    assert not state.is_over(datetime.now(UTC) + timedelta(minutes=59))
    assert state.is_over(datetime.now(UTC) + timedelta(minutes=61))
    assert state.log is not None
    assert state.log.endswith("#logsV2:log-groups/log-group/$252Faws$252Fsagemaker$252FEndpoints$252Femotion")
    assert messages[0].endswith("next newer image has 5.5.3)")
    assert any(line.startswith("Endpoint emotion: Creating... ") for line in messages)
    assert [each.name for each in endpoints.endpoints()] == ["emotion"]
    assert endpoints.predict("emotion", QUESTION) == QUESTION
    endpoints.undeploy("emotion", quiet)
    assert account.hosting.names() == {}
    assert account.hosting.tags == {}
    assert endpoints.endpoints() == []


@pytest.mark.slow
def test_endpoint_configuration_and_model_have_our_tags(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec
) -> None:
    endpoints.deploy(spec(), quiet)
    names = account.hosting.names()
    assert names["EndpointConfig"] == names["Model"]
    tags = [account.hosting.tags_of(kind, name) for kind, [name] in names.items()]
    assert tags[0] == tags[1] == tags[2]
    assert tags[0]["trainfare:endpoint"] == "emotion"
    assert tags[0]["trainfare:run"] == "0123abc"


def test_the_archive_has_the_model_at_its_root(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    endpoints.deploy(spec(), quiet)
    [name] = account.hosting.names()["Model"]
    archive = account.hosting.model_archive(account.hosting.request("Model", name))
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        assert sorted(tar.getnames()) == ["config.json", "model.safetensors", "tokenizer.json"]


@pytest.mark.slow
def test_a_model_is_uploaded_once(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    def uploads() -> list[str]:
        return [each for _, each in account.calls if each.startswith("PUT") and "model.tar.gz" in each]

    for name in ("emotion", "emotion-2"):
        endpoints.deploy(spec(name=name), quiet)
    assert len(uploads()) == 1


@pytest.mark.slow
def test_the_archive_of_a_sagemaker_job_is_reused(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    account.clients["s3"].create_bucket(Bucket=BUCKET)
    account.clients["s3"].put_object(Bucket=BUCKET, Key="trainfare/output/job/output/model.tar.gz", Body=b"packed")
    uri = f"s3://{BUCKET}/trainfare/output/job/output/model.tar.gz"
    endpoints.deploy(spec(artifact_uri=uri), quiet)
    [name] = account.hosting.names()["Model"]
    assert account.hosting.request("Model", name)["PrimaryContainer"]["ModelDataUrl"] == uri
    # Where it is deleted since, the folder is packed.
    account.clients["s3"].delete_object(Bucket=BUCKET, Key="trainfare/output/job/output/model.tar.gz")
    endpoints.deploy(spec(name="again", artifact_uri=uri), quiet)
    data = [account.hosting.request("Model", each)["PrimaryContainer"] for each in account.hosting.names()["Model"]]
    assert [each["ModelDataUrl"] for each in data].count(uri) == 1


def test_a_repeated_deploy_changes_nothing(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    first = endpoints.deploy(spec(), quiet)
    before = account.hosting.names()
    assert endpoints.deploy(spec(), quiet) == first
    assert account.hosting.names() == before
    assert [each for _, each in account.api.calls].count("CreateEndpoint") == 1


def test_a_name_in_use_is_refused(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    endpoints.deploy(spec(), quiet)
    before = account.hosting.names()
    for fields, message in (
        ({"run_id": "9999fff"}, "Endpoint emotion serves 0123abc, not 9999fff: use --replace true, or choose"),
        ({"machine": "ml.g5.xlarge"}, "Endpoint emotion runs on 1 x ml.g4dn.xlarge: use --replace true"),
        ({"versions": "transformers 4.26.0"}, "Endpoint emotion serves the same model with a different image"),
    ):
        with pytest.raises(EndpointTaken, match=message):
            endpoints.deploy(spec(**fields), quiet)
    assert account.hosting.names() == before


def test_a_different_model_replaces_it_on_request(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    endpoints.deploy(spec(lifetime_seconds=60.0), quiet)
    before = account.hosting.names()
    state = endpoints.deploy(spec(run_id="9999fff", replace=True), quiet)
    assert (state.status, state.run_id, state.identity, state.expires) == ("InService", "9999fff", "9999fff", None)
    after = account.hosting.names()
    assert {kind: len(names) for kind, names in after.items()} == {"Endpoint": 1, "EndpointConfig": 1, "Model": 1}
    assert after["Model"] != before["Model"]
    assert endpoints.deploy(spec(run_id="9999fff"), quiet) == state
    endpoints.undeploy("emotion", quiet)
    assert account.hosting.names() == {}


def test_a_repeated_deploy_sets_the_lifetime(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    first = endpoints.deploy(spec(), quiet)
    assert first.expires is None
    longer = endpoints.deploy(spec(lifetime_seconds=3600.0, when_over="delete"), quiet)
    assert longer.expires is not None
    assert 3000 < (longer.expires - datetime.now(UTC)).total_seconds() <= 3600
    assert longer.when_over == "delete"
    assert endpoints.deploy(spec(), quiet) == longer
    shorter = endpoints.deploy(spec(lifetime_seconds=60.0), quiet)
    assert shorter.expires is not None
    assert shorter.expires < longer.expires
    assert shorter == replace(longer, expires=shorter.expires, when_over="warn")


def test_a_failed_replacement_leaves_the_old_model(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    endpoints.deploy(spec(), quiet)
    before = account.hosting.names()
    account.hosting.failure = "The primary container did not pass the ping health check."
    with pytest.raises(EndpointFailed, match="Endpoint emotion failed: The primary container did not pass the ping"):
        endpoints.deploy(spec(run_id="9999fff", replace=True), quiet)
    assert account.hosting.names() == before
    assert endpoints.predict("emotion", QUESTION) == QUESTION
    assert endpoints.describe("emotion").run_id == "0123abc"


def test_a_failed_endpoint_is_reported_and_deleted(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    account.hosting.failure = "The primary container did not pass the ping health check. Please check the logs."
    with pytest.raises(EndpointFailed, match=r"emotion failed: The primary .* check the logs \(log: https://us-east"):
        endpoints.deploy(spec(), quiet)
    assert account.hosting.names() == {}


@pytest.mark.slow
def test_a_failure_is_reported_with_the_last_lines_of_the_log(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec
) -> None:
    account.hosting.failure = "The primary container did not pass the ping health check."
    logs, place = account.clients["logs"], {"logGroupName": "/aws/sagemaker/Endpoints/emotion"}
    logs.create_log_group(**place)
    logs.create_log_stream(**place, logStreamName="AllTraffic/i-1")
    now_ms = int(1000 * (datetime.now(UTC).timestamp() + 60))
    events = [{"timestamp": now_ms + at, "message": f"line {at}\n"} for at in range(7)]
    logs.put_log_events(**place, logStreamName="AllTraffic/i-1", logEvents=events)
    with pytest.raises(EndpointFailed, match=r"; its last lines: line 2 \| line 3 \| line 4 \| line 5 \| line 6\)\.$"):
        endpoints.deploy(spec(), quiet)


def test_an_endpoint_that_never_answers_is_deleted(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    """SageMaker cannot delete an endpoint while it creates it, which here takes 5 looks."""
    account.hosting.looks, account.hosting.failure = 5, "It did not pass the ping health check."
    messages: list[str] = []
    with pytest.raises(EndpointFailed, match="does not answer after 0 s: its status is Creating"):
        endpoints.deploy(spec(wait_seconds=0.0), messages.append)
    assert account.hosting.names() == {}
    assert any("cannot be deleted while SageMaker is changing it" in line for line in messages)


def test_a_quota_of_zero_is_reported(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    account.hosting.quotas["ml.g4dn.xlarge"] = 0
    with pytest.raises(QuotaError) as met:
        endpoints.deploy(spec(), quiet)
    assert str(met.value) == (
        "Endpoint emotion: the account's quota 'ml.g4dn.xlarge for endpoint usage' is 0: request an increase under "
        "Service Quotas, SageMaker, or choose another instance type."
    )
    assert account.hosting.names() == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Endpoint", "EndpointConfig", "Model"])
def test_resources_of_others_are_not_changed(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, kind: str
) -> None:
    endpoints.deploy(spec(), quiet)
    for each in ("Endpoint", "EndpointConfig", "Model"):
        [name] = account.hosting.names()[each]
        if each == kind:
            account.hosting.tags_of(each, name).clear()
            left = {each: [name]}
            continue
        account.hosting.tags.pop(account.hosting.kinds[each].pop(name).arn)
    with pytest.raises(EndpointTaken, match="exists in this region, but"):
        endpoints.deploy(spec(), quiet)
    assert account.hosting.names() == left
    with pytest.raises(EndpointNotFound):
        endpoints.undeploy("emotion", quiet)
    assert account.hosting.names() == left
    assert endpoints.endpoints() == []


@pytest.mark.slow
def test_every_page_of_endpoints_is_listed(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    names = [f"emotion-{at}" for at in range(PAGE + 1)]
    for name in names:
        endpoints.deploy(spec(name=name), quiet)
    # Somebody else's among them.
    arn = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/emotion-theirs"
    request = {"EndpointName": "emotion-theirs", "EndpointConfigName": "theirs"}
    account.hosting.kinds["Endpoint"]["emotion-theirs"] = Hosted(request=request, arn=arn)
    account.hosting.tags[arn] = {"owner": "them"}
    assert [each.name for each in endpoints.endpoints()] == names[::-1]
    for each in endpoints.endpoints():
        endpoints.undeploy(each.name, quiet)
    assert account.hosting.names() == {"Endpoint": ["emotion-theirs"]}


@pytest.mark.slow
def test_names_with_the_same_prefix_are_distinguished(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec
) -> None:
    for name in ("emotion", "emotion-2"):
        endpoints.deploy(spec(name=name), quiet)
    endpoints.undeploy("emotion", quiet)
    assert [each.name for each in endpoints.endpoints()] == ["emotion-2"]
    assert {kind: len(names) for kind, names in account.hosting.names().items()} == {
        "Endpoint": 1,
        "EndpointConfig": 1,
        "Model": 1,
    }


@pytest.mark.slow
def test_network_keys_and_tags_are_passed_on(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, tmp_path: Path
) -> None:
    fields = {"subnets": ["subnet-1"], "security_groups": ["sg-1"], "isolate_network": True, "tags": {"team": "nlp"}}
    opened(tmp_path, **fields, volume_key="key").deploy(spec(machine="ml.m5.xlarge"), quiet)
    [name] = account.hosting.names()["Model"]
    model, config = account.hosting.request("Model", name), account.hosting.request("EndpointConfig", name)
    assert model["VpcConfig"] == {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}
    assert model["EnableNetworkIsolation"] is True
    assert config["KmsKeyId"] == "key"
    assert account.hosting.tags_of("Endpoint", "emotion")["team"] == "nlp"
    # Disks within the machine have a key of their own: SageMaker refuses another.
    endpoints.undeploy("emotion", quiet)
    opened(tmp_path, **fields, volume_key="key").deploy(spec(), quiet)
    [name] = account.hosting.names()["Model"]
    assert "KmsKeyId" not in account.hosting.request("EndpointConfig", name)


def test_invalid_requests_are_refused(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    for fields, message in (
        ({"machine": "local"}, "machine is 'local': use a SageMaker instance type"),
        ({"precision": "bf16"}, "precision is 'bf16': leave it out, because"),
        ({"machine": "ml.none.xlarge"}, "machine 'ml.none.xlarge' is not allowed by SageMaker"),
        ({"task": "translation"}, "task is 'translation': it must be one of classification, question-answering"),
    ):
        with pytest.raises(InputError, match=message):
            endpoints.deploy(spec(**fields), quiet)
    assert account.hosting.names() == {}


@pytest.mark.slow
def test_a_folder_without_a_model_is_refused(endpoints: SageMakerEndpoints, spec: Spec, folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"architectures": ["BertForMaskedLM"]}))
    with pytest.raises(InputError, match=r"has architectures \['BertForMaskedLM'\], but an endpoint serves only"):
        endpoints.deploy(spec(), quiet)
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match="the task cannot be read from"):
        endpoints.deploy(spec(), quiet)
    with pytest.raises(InputError, match=r"is not a Transformers folder: it has no config\.json"):
        endpoints.deploy(spec(task="classification"), quiet)
