"""Endpoints are created, answer and are deleted on a simulated account, through real boto3; no failure leaves any."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from experiments.__main__ import main
from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from tests.conftest import ROOT
from tests.models.endpoints.sagemaker.conftest import QUICK, opened
from tests.support.aws.account import BUCKET, Account
from tests.support.aws.api import THROTTLED, ApiError, Dropped
from tests.support.aws.hosting import PAGE, Hosted
from tests.support.aws.rights import actions
from training.contract.errors import (
    AccessError,
    EndpointFailed,
    EndpointNotFound,
    EndpointTaken,
    InputError,
    QuotaError,
    ServiceError,
    Unreachable,
)
from training.contract.price import Price
from training.services.sagemaker import clients

Spec = Callable[..., EndpointSpec]
QUESTION = b'{"inputs": "Winter is coming and it will be dark soon."}'
KINDS = {"CreateModel": "Model", "CreateEndpointConfig": "EndpointConfig", "CreateEndpoint": "Endpoint"}
READS = re.compile(r"(GET|HEAD) .*|(Get|Head|List|Describe).*|POST /")
ONE_EACH = {"Endpoint": 1, "EndpointConfig": 1, "Model": 1}
PING = "The primary container did not pass the ping health check."
DENIED = ApiError("AccessDeniedException", "User: arn:aws:iam::123456789012:user/me is not authorized to perform that")
NO_ROOM = ApiError(
    "ResourceLimitExceeded",
    "The account-level service limit 'Models' is 10 Instances, with current utilization of 10 Instances and a request "
    "delta of 1 Instances.",
)
NOT_CALLED = {
    "sagemaker:AddTags": "checked by SageMaker in requests with tags",
}
"""Documented permissions that no call below shows, and why they are documented."""


def quiet(_: str) -> None:
    pass


def count(account: Account) -> dict[str, int]:
    return {kind: len(names) for kind, names in account.hosting.names().items()}


@pytest.fixture
def deploy(endpoints: SageMakerEndpoints, account: Account, classifier_folder: Path, tmp_path: Path) -> list[str]:
    """Arguments of the `deploy` command."""
    account.hosting.looks = 0
    fields = {
        "model": classifier_folder,
        "endpoint": "emotion",
        "service": "sagemaker",
        "machine.instance_type": "ml.g4dn.xlarge",
    }
    fields |= {"aws.role": "trainer", "aws.prices": tmp_path / "prices.json"}
    return ["deploy", *(word for name, value in fields.items() for word in (f"--{name}", str(value)))]


def test_an_endpoint_answers_until_it_is_undeployed(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, tmp_path: Path
) -> None:
    plan = opened(tmp_path, is_read_only=True).plan(spec())
    assert (plan.action, plan.missing_bucket, account.hosting.names()) == ("create", BUCKET, {})
    assert [call for _, call in account.calls if not READS.fullmatch(call)] == []
    assert list(plan.uploads.values()) == [sum(path.stat().st_size for path in spec().model.iterdir())]
    messages: list[str] = []
    state = endpoints.deploy(spec(), messages.append)
    for operation, request in plan.requests:  # what was planned was sent
        [name] = account.hosting.names()[KINDS[operation]]
        tags = [{"Key": key, "Value": value} for key, value in account.hosting.tags_of(KINDS[operation], name).items()]
        assert account.hosting.request(KINDS[operation], name) | {"Tags": tags} == request
    assert (state.name, state.service, state.status, state.identity) == ("emotion", "sagemaker", "InService", "0123abc")
    assert (state.machine, state.machines) == ("ml.g4dn.xlarge", 1)
    assert state.address == "arn:aws:sagemaker:us-east-1:123456789012:endpoint/emotion"
    price = endpoints.price(state.machine)
    assert price == Price(usd_per_hour=36.0, source="prices.json", date="2026-11-01")
    assert state.usd(price, state.created + timedelta(seconds=90)) == pytest.approx(0.9)
    assert messages[0].endswith("nearest image has 5.5.3)")
    assert any(line.startswith("Endpoint emotion: Creating... ") for line in messages)
    assert endpoints.predict("emotion", QUESTION) == QUESTION
    # The same again changes nothing.
    assert opened(tmp_path, is_read_only=True).plan(spec()).action == "keep"
    assert endpoints.deploy(spec(), quiet) == state == endpoints.endpoints()[0]
    assert [each for _, each in account.api.calls].count("CreateEndpoint") == 1
    # Another model of the same name is refused.
    for fields, message in (
        (
            {"run_id": "9999fff"},
            "Endpoint emotion serves 0123abc, not 9999fff: choose a different --endpoint, or undeploy",
        ),
        ({"machine": "ml.g5.xlarge"}, "Endpoint emotion serves the same model with a different machine"),
    ):
        with pytest.raises(EndpointTaken, match=message):
            endpoints.deploy(spec(**fields), quiet)
    endpoints.undeploy("emotion", quiet)
    assert (account.hosting.names(), account.hosting.tags, endpoints.endpoints()) == ({}, {}, [])
    for ask in (
        endpoints.describe,
        lambda name: endpoints.undeploy(name, quiet),
        lambda name: endpoints.predict(name, b""),
    ):
        with pytest.raises(EndpointNotFound, match="Endpoint emotion does not exist on SageMaker in this account"):
            ask("emotion")


def test_the_commands_of_a_user(
    deploy: list[str], account: Account, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(deploy) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0] == "Cost: 36 USD per hour (prices.json, 2026-11-01), until it is undeployed"
    assert "Endpoint: emotion (sagemaker, InService)" in output
    assert output[-1].startswith(
        "Delete it: trainfare undeploy --endpoint emotion --service sagemaker (it costs 36 USD"
    )
    account.hosting.kinds["Endpoint"]["emotion"].created -= timedelta(hours=1)
    assert main(["predict", "--endpoint", "emotion", "--service", "sagemaker", "--text", "Winter is coming."]) == 0
    assert capsys.readouterr().out == '{"inputs": "Winter is coming."}\n'
    # SageMaker is searched without a record of this machine, where a region is set.
    assert main(["endpoints", "--aws.prices", str(tmp_path / "prices.json")]) == 0
    output = capsys.readouterr().out
    assert re.search(r"sagemaker, 1 x ml\.g4dn\.xlarge .* 36 +36\.\d\d +arn:aws:sagemaker", output), output
    (tmp_path / "prices.json").unlink()
    assert main(["endpoints", "--aws.prices", str(tmp_path / "prices.json")]) == 2
    assert "error: Price table" in capsys.readouterr().err
    # Where it cannot be searched, only the endpoints of this machine are listed.
    account.api.faults.last("ListEndpoints", DENIED)
    assert main(["endpoints"]) == 0
    assert (
        "Note: Amazon SageMaker was not searched for endpoints: The list of endpoints: access"
        in capsys.readouterr().err
    )
    assert main(["endpoints", "--service", "sagemaker"]) == 1
    account.api.faults.clear()
    assert main(["undeploy", "--all"]) == 0
    assert account.hosting.names() == {}


REFUSALS: tuple[tuple[Exception, type[Exception], str], ...] = (
    (DENIED, AccessError, r"Endpoint emotion: access is denied: User: .*\. docs/aws.md lists the permissions"),
    (NO_ROOM, QuotaError, "Endpoint emotion: the account's quota 'Models' is 10: all of it is in use"),
    (THROTTLED, Unreachable, "Endpoint emotion: AWS throttles the calls"),
    (Dropped(done=True), Unreachable, "Endpoint emotion: AWS does not answer"),
)
"""SageMaker's response, and our error for it; the last request took effect all the same."""


@pytest.mark.slow
@pytest.mark.parametrize("step", KINDS)
def test_a_failed_step_leaves_nothing(
    deploy: list[str], account: Account, spec: Spec, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    endpoints = opened(tmp_path)
    for error, kind, message in REFUSALS:
        account.api.faults.add(step, error)
        with pytest.raises(kind, match=message):
            endpoints.deploy(spec(), quiet)
        assert (message, account.hosting.names(), account.hosting.tags) == (message, {}, {})


UNSEEN = ApiError("ValidationException", 'Could not find endpoint configuration "arn:aws:sagemaker:x".')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "error"),
    [("CreateModel", Dropped(done=True)), ("CreateEndpoint", Dropped(done=True)), ("CreateEndpoint", UNSEEN)],
)
def test_a_transient_error_is_retried_and_creates_nothing_twice(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, step: str, error: Exception
) -> None:
    account.api.faults.add(step, error)
    assert endpoints.deploy(spec(), quiet).status == "InService"
    assert count(account) == ONE_EACH


def test_an_endpoint_that_fails_is_reported_and_deleted(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec
) -> None:
    account.hosting.failure = PING
    logs, place = account.clients["logs"], {"logGroupName": "/aws/sagemaker/Endpoints/emotion"}
    logs.create_log_group(**place)
    logs.create_log_stream(**place, logStreamName="AllTraffic/i-1")
    now_ms = int(1000 * (datetime.now(UTC).timestamp() + 60))
    events = [{"timestamp": now_ms + at, "message": f"line {at}\n"} for at in range(7)]
    logs.put_log_events(**place, logStreamName="AllTraffic/i-1", logEvents=events)
    with pytest.raises(
        EndpointFailed,
        match=r"failed: The primary .* check \(log: https://us-east.*Endpoints\$252Femotion; "
        r"its last lines: line 2 \| line 3 \| line 4 \| line 5 \| line 6\)\.$",
    ):
        endpoints.deploy(spec(), quiet)
    assert account.hosting.names() == {}
    # One that never answers can only be deleted once its creation has ended.
    account.hosting.looks, messages = 5, list[str]()
    with pytest.raises(EndpointFailed, match="does not answer after 0 s"):
        endpoints.deploy(spec(wait_seconds=0.0), messages.append)
    assert account.hosting.names() == {}
    assert any("is deleted as soon as SageMaker has stopped changing it" in line for line in messages)


def test_what_cannot_be_deleted_is_reported(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    account.hosting.failure = PING
    account.api.faults.last("DeleteEndpoint", DENIED)
    with pytest.raises(EndpointFailed, match="did not pass the ping") as caught:
        endpoints.deploy(spec(), quiet)
    [note] = caught.value.__notes__
    assert note.startswith("Endpoint emotion was not deleted completely (Endpoint emotion: access is denied")
    assert note.endswith("undeploy it, it may cost money.")
    account.api.faults.clear()
    assert [each.name for each in endpoints.endpoints()] == ["emotion"]
    endpoints.undeploy("emotion", quiet)
    assert account.hosting.names() == {}


@pytest.mark.parametrize("interrupts", [1, 2])
def test_ctrl_c_leaves_nothing_or_says_so(
    account: Account, endpoints: SageMakerEndpoints, spec: Spec, tmp_path: Path, interrupts: int
) -> None:
    """The interrupt arrives during a pause. After the second one, the endpoint remains until it is undeployed."""
    pauses: list[float] = []

    def interrupted(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) <= interrupts:
            raise KeyboardInterrupt

    account.hosting.looks = 5
    with pytest.raises(KeyboardInterrupt) as caught:
        opened(tmp_path, replace(QUICK, sleep=interrupted)).deploy(spec(), quiet)
    if interrupts == 2:
        [note] = caught.value.__notes__
        assert note.startswith("Endpoint emotion was not deleted completely (interrupted again)")
        assert endpoints.describe("emotion").status == "Creating"
        endpoints.undeploy("emotion", quiet)
    assert account.hosting.names() == {}


def test_a_dead_endpoint_is_created_again(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    endpoints.deploy(spec(), quiet)
    hosted = account.hosting.kinds["Endpoint"]["emotion"]
    hosted.created -= timedelta(hours=1)
    hosted.status, hosted.reason = "Failed", "CapacityError: none."
    state = endpoints.describe("emotion")
    assert (state.status, state.reason, state.ended) == ("Failed", "CapacityError: none.", state.created)
    with pytest.raises(EndpointFailed, match=r"^Endpoint emotion is Failed and does not answer: CapacityError: none\."):
        endpoints.predict("emotion", QUESTION)
    assert endpoints.deploy(spec(run_id="9999fff"), quiet).identity == "9999fff"
    hosted = account.hosting.kinds["Endpoint"]["emotion"]
    hosted.status, hosted.looks = "Deleting", 3
    assert endpoints.deploy(spec(), quiet).identity == "0123abc"
    assert count(account) == ONE_EACH


@pytest.mark.parametrize("run_id", ["0123abc", "9999fff"])
def test_a_name_that_another_command_takes_meanwhile(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, tmp_path: Path, run_id: str
) -> None:
    """Between the check and the creation. With the same model both share the endpoint, else the first one keeps it."""
    other = opened(tmp_path)

    def cut_in(line: str) -> None:
        if line.startswith("Image:"):
            other.deploy(spec(run_id=run_id), quiet)

    if run_id == "0123abc":
        assert endpoints.deploy(spec(), cut_in).status == "InService"
    else:
        with pytest.raises(EndpointTaken, match="Endpoint emotion cannot be created: Endpoint emotion exists in this"):
            endpoints.deploy(spec(), cut_in)
    assert endpoints.describe("emotion").identity == run_id
    assert count(account) == ONE_EACH


def test_resources_of_others_are_not_changed(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    """An endpoint of somebody else has the name. Its configuration and model are gone."""
    endpoints.deploy(spec(), quiet)
    names = account.hosting.names()
    account.hosting.tags_of("Endpoint", "emotion").clear()
    for each in ("EndpointConfig", "Model"):
        account.hosting.tags.pop(account.hosting.kinds[each].pop(names[each][0]).arn)
    with pytest.raises(EndpointTaken, match="exists in this region, but"):
        endpoints.deploy(spec(), quiet)
    with pytest.raises(EndpointNotFound):
        endpoints.undeploy("emotion", quiet)
    assert (account.hosting.names(), endpoints.endpoints()) == ({"Endpoint": ["emotion"]}, [])


def test_every_endpoint_with_our_tag_is_listed_and_deleted(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec
) -> None:
    """Over several pages, beside one of somebody else. Names with the same beginning are not confused."""
    names = [f"emotion-{at}" for at in range(PAGE)]
    for name in (*names, "emotion"):
        endpoints.deploy(spec(name=name), quiet)
    arn = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/theirs"
    request = {"EndpointName": "theirs", "EndpointConfigName": "theirs"}
    account.hosting.kinds["Endpoint"]["theirs"] = Hosted(request=request, arn=arn)
    account.hosting.tags[arn] = {"owner": "them"}
    endpoints.undeploy("emotion", quiet)
    assert [each.name for each in endpoints.endpoints()] == names[::-1]
    # Of one, only parts are left.
    account.hosting.tags.pop(account.hosting.kinds["Endpoint"].pop(names[1]).arn)
    assert endpoints.describe(names[1]).status == "Deleted"
    for name in names:
        endpoints.undeploy(name, quiet)
    assert account.hosting.names() == {"Endpoint": ["theirs"]}


def test_network_keys_and_tags_are_passed_on(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, tmp_path: Path
) -> None:
    fields = {"subnets": ["subnet-1"], "security_groups": ["sg-1"], "isolate_network": True, "tags": {"team": "nlp"}}
    ami = "al2023-ami-sagemaker-inference-gpu-4-1"
    opened(tmp_path, **fields, volume_key="key", ami=ami).deploy(spec(machine="ml.m5.xlarge"), quiet)
    [name] = account.hosting.names()["Model"]
    model, config = account.hosting.request("Model", name), account.hosting.request("EndpointConfig", name)
    assert model["VpcConfig"] == {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}
    assert model["EnableNetworkIsolation"] is True
    assert (config["KmsKeyId"], config["ProductionVariants"][0]["InferenceAmiVersion"]) == ("key", ami)
    assert account.hosting.tags_of("Endpoint", "emotion")["team"] == "nlp"


def test_invalid_requests_are_refused(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, folder: Path, tmp_path: Path
) -> None:
    for fields, message in (
        ({"precision": "bf16"}, "precision is 'bf16': leave it out, because"),
        ({"machine": "ml.none.xlarge"}, "machine 'ml.none.xlarge' is not allowed by SageMaker"),
        ({"task": "translation"}, "task is 'translation': it must be one of classification, question-answering"),
    ):
        with pytest.raises(InputError, match=message):
            endpoints.deploy(spec(**fields), quiet)
    with pytest.raises(InputError, match="ami 'gpu-4' is not allowed by SageMaker"):
        opened(tmp_path, ami="gpu-4").deploy(spec(), quiet)
    (folder / "config.json").write_text(json.dumps({"architectures": ["BertForMaskedLM"]}))
    with pytest.raises(InputError, match="names BertForMaskedLM: the class that it names must end in"):
        endpoints.deploy(spec(task=None), quiet)
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match=r"is not a Transformers folder: it has no config\.json"):
        endpoints.deploy(spec(), quiet)
    account.hosting.quotas["ml.g5.xlarge"] = 0
    (folder / "config.json").write_text("{}")
    with pytest.raises(
        QuotaError, match=r"'ml\.g5\.xlarge for endpoint usage' is 0: request an increase under Service"
    ):
        endpoints.deploy(spec(machine="ml.g5.xlarge"), quiet)
    assert account.hosting.names() == {}


def test_refusals_of_a_request_are_reported(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    endpoints.deploy(spec(), quiet)
    bad = json.dumps({"code": 400, "type": "BadRequest", "message": "inputs is 3,\nnot a text."}).encode()
    for status, content, kind, message in (
        (400, bad, InputError, r"^Endpoint emotion rejected the request with status 400: inputs is 3, not a text\.$"),
        (507, b'{"message": 1}', EndpointFailed, r"^Endpoint emotion failed with status 507: 1 \(log: https://us-east"),
    ):
        account.hosting.serve = lambda *_, answer=(status, content): answer
        with pytest.raises(kind, match=message):
            endpoints.predict("emotion", b"{}")
    for error, refused, message in (
        (THROTTLED, Unreachable, "Endpoint emotion: AWS throttles the calls"),
        (ApiError("ValidationError", "Body is empty"), ServiceError, "Endpoint emotion: .*Body is empty"),
    ):
        account.runtime.faults.add("InvokeEndpoint", error)
        with pytest.raises(refused, match=message):
            endpoints.predict("emotion", b"{}")


@pytest.mark.slow
def test_a_slow_model_is_asked_once(
    endpoints: SageMakerEndpoints, spec: Spec, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other errors are retried, up to AWS_MAX_ATTEMPTS."""
    monkeypatch.setitem(clients.READ_SECONDS, clients.RUNTIME, 2)
    asked: list[bytes] = []

    def serve(_: Any, __: Any, body: bytes) -> tuple[int, bytes]:
        asked.append(body)
        if body == b"slow":
            time.sleep(4)
        return 200, body

    account.hosting.serve = serve
    endpoints.deploy(spec(), quiet)
    with pytest.raises(Unreachable, match="has not answered within 2 s, and the request was not repeated: "):
        endpoints.predict("emotion", b"slow")
    account.runtime.faults.add("InvokeEndpoint", Dropped(), ApiError("ServiceUnavailable", "", 503))
    assert endpoints.predict("emotion", b"quick") == b"quick"
    assert asked == [b"slow", b"quick"]


def test_endpoints_need_only_the_documented_permissions(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec
) -> None:
    endpoints.deploy(spec(), quiet)
    endpoints.predict("emotion", QUESTION)
    account.hosting.failure = PING
    with pytest.raises(EndpointFailed):
        endpoints.deploy(spec(name="failing"), quiet)
    endpoints.endpoints()
    endpoints.undeploy("emotion", quiet)
    assert set(actions("endpoints")) - account.actions == set(NOT_CALLED)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_or_a_closed_terminal_leaves_nothing(
    deploy: list[str], account: Account, number: signal.Signals
) -> None:
    """A real process is interrupted while SageMaker creates its endpoint, and deletes it once that is possible."""
    account.hosting.looks = 1_000_000
    command = [sys.executable, "-m", "experiments", *deploy]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        while "Endpoint" not in account.hosting.names():
            assert process.poll() is None
            time.sleep(0.05)
        assert process.stdout
        process.stdout.close()
        process.send_signal(number)
        while "DeleteEndpoint" not in [call for _, call in account.api.calls]:
            assert process.poll() is None
            time.sleep(0.05)
        account.hosting.kinds["Endpoint"]["emotion"].looks = account.hosting.looks = 0
        assert process.wait(480) == 130
    assert account.hosting.names() == {}


LEFT = {
    "CreateModel": ["Model"],
    "CreateEndpointConfig": ["EndpointConfig", "Model"],
    "CreateEndpoint": ["Endpoint", "EndpointConfig", "Model"],
}


@pytest.mark.slow
@pytest.mark.parametrize("call", LEFT)
def test_what_a_killed_command_left_is_used_or_deleted(
    account: Account, endpoints: SageMakerEndpoints, spec: Spec, folder: Path, call: str
) -> None:
    """Killed with SIGKILL between two API calls: the same command continues, and `undeploy` finds all parts."""
    command = [sys.executable, "-m", "tests.support.endpoints.deploys", str(folder), f"after-call.sagemaker.{call}"]
    for is_continued in (True, False):
        account.hosting.looks = 3
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=480, check=False)
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
        assert list(account.hosting.names()) == LEFT[call]
        if is_continued:
            assert endpoints.deploy(spec(), quiet).status == "InService"
            assert count(account) == ONE_EACH
        endpoints.undeploy("emotion", quiet)
        assert account.hosting.names() == {}
