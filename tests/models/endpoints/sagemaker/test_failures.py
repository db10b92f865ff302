"""Failures at any step leave no resources, according to the account's own lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from models.endpoints.sagemaker.waiting import WaitPolicy
from tests.models.endpoints.sagemaker.conftest import opened
from tests.support.aws.account import Account
from tests.support.aws.api import BROKEN, EXPIRED, THROTTLED, ApiError, Dropped
from training.contract.errors import (
    AccessError,
    EndpointFailed,
    EndpointTaken,
    InputError,
    QuotaError,
    ServiceError,
    Unreachable,
)

Spec = Callable[..., EndpointSpec]
STEPS = ("CreateModel", "CreateEndpointConfig", "CreateEndpoint")
DENIED = ApiError("AccessDeniedException", "User: arn:aws:iam::123456789012:user/me is not authorized to perform that")
NO_ROOM = ApiError(
    "ResourceLimitExceeded",
    "The account-level service limit 'Models' is 10 Instances, with current utilization of 10 Instances and a request "
    "delta of 1 Instances.",
)
MALFORMED = ApiError("ValidationException", "Something is not as it has to be.")


def quiet(_: str) -> None:
    pass


def listed(account: Account) -> dict[str, int]:
    """Count the resources of each kind, as listed by SageMaker."""
    sagemaker = account.hosting.operations()
    return {
        kind: len(result)
        for kind in ("Models", "EndpointConfigs", "Endpoints")
        if (result := sagemaker[f"List{kind}"]({})[kind])
    }


REFUSALS: tuple[tuple[Exception, type[Exception], str], ...] = (
    (DENIED, AccessError, r"Endpoint emotion: access is denied: User: .*\. docs/aws.md lists the permissions"),
    (NO_ROOM, QuotaError, "Endpoint emotion: the account's quota 'Models' is 10: all of it is in use"),
    (MALFORMED, InputError, "Endpoint emotion: SageMaker rejected the request: Something is not"),
    (THROTTLED, Unreachable, "Endpoint emotion: AWS throttles the calls"),
    (BROKEN, ServiceError, "Endpoint emotion: InternalFailure"),
    (EXPIRED, AccessError, "Endpoint emotion: AWS credentials have expired"),
    (Dropped(), Unreachable, "Endpoint emotion: AWS does not answer"),
    (Dropped(done=True), Unreachable, "Endpoint emotion: AWS does not answer"),
)
"""SageMaker's response, and our error for it; the last request took effect all the same."""


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_failed_step_leaves_nothing(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for count, (error, kind, message) in enumerate(REFUSALS, start=1):
        account.api.faults.add(step, error)
        with pytest.raises(kind, match=message):
            endpoints.deploy(spec(), quiet)
        assert [each for _, each in account.api.calls].count(step) == count
        assert (message, listed(account), account.hosting.tags) == (message, {}, {})


def test_a_reported_failure_leaves_no_resources(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    """Even after a failure that follows the endpoint's first answer, nothing remains that costs money."""
    account.api.faults.last("ListEndpointConfigs", DENIED)
    with pytest.raises(AccessError, match="The list of endpoint configurations: access is denied"):
        endpoints.deploy(spec(), quiet)
    assert (account.hosting.names(), account.hosting.tags) == ({}, {})


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_lost_response_creates_nothing_twice(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, step: str
) -> None:
    """The resource was created, but the response was lost, so boto3 repeats the request."""
    account.api.faults.add(step, Dropped(done=True))
    assert endpoints.deploy(spec(), quiet).status == "InService"
    assert listed(account) == {"Models": 1, "EndpointConfigs": 1, "Endpoints": 1}


@pytest.mark.slow
def test_a_new_resource_that_is_not_visible_yet_is_retried(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec
) -> None:
    unseen = ApiError("ValidationException", 'Could not find endpoint configuration "arn:aws:sagemaker:x".')
    account.api.faults.add("CreateEndpoint", unseen, unseen)
    assert endpoints.deploy(spec(), quiet).status == "InService"


@pytest.mark.slow
@pytest.mark.parametrize("step", [*STEPS, "DescribeEndpoint", "ListTags"])
@pytest.mark.parametrize("error", [THROTTLED, BROKEN, Dropped()], ids=["throttled", "500", "dropped"])
def test_transient_errors_are_retried(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, step: str, error: Exception
) -> None:
    account.api.faults.add(step, error)
    assert endpoints.deploy(spec(), quiet).status == "InService"


@pytest.mark.slow
@pytest.mark.parametrize("step", ["DeleteEndpoint", "DeleteEndpointConfig", "DeleteModel"])
def test_resources_that_cannot_be_deleted_are_reported(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, step: str
) -> None:
    account.hosting.failure = "The container did not pass the ping health check."
    account.api.faults.last(step, DENIED)
    with pytest.raises(EndpointFailed, match="did not pass the ping") as caught:
        endpoints.deploy(spec(), quiet)
    [note] = caught.value.__notes__
    assert note.startswith("Endpoint emotion could not be deleted completely (Endpoint emotion: access is denied")
    assert note.endswith("undeploy it, because it may cost money.")
    account.api.faults.last(step, None)
    assert [each.name for each in endpoints.endpoints()] == ["emotion"]
    endpoints.undeploy("emotion", quiet)
    assert listed(account) == {}


def test_ctrl_c_during_creation_leaves_nothing(
    account: Account, endpoints: SageMakerEndpoints, spec: Spec, tmp_path: Path
) -> None:
    """The interrupt arrives during a pause. SageMaker cannot delete the endpoint until its creation has ended."""
    pauses: list[float] = []

    def interrupted(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    account.hosting.looks = 5

    waiting = WaitPolicy(first_seconds=0.01, longest_seconds=0.01, sleep=interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened(tmp_path, waiting).deploy(spec(), quiet)
    assert len(pauses) > 3
    assert listed(account) == {}


def test_a_second_ctrl_c_leaves_the_deletion_to_the_next_command(
    account: Account, endpoints: SageMakerEndpoints, spec: Spec, tmp_path: Path
) -> None:
    """The endpoint remains, with tags for an ended lifetime and its deletion."""

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    account.hosting.looks = 1000
    with pytest.raises(KeyboardInterrupt) as caught:
        opened(tmp_path, WaitPolicy(sleep=interrupted)).deploy(spec(), quiet)
    [note] = caught.value.__notes__
    assert note.startswith("Endpoint emotion could not be deleted completely (interrupted again)")
    [state] = endpoints.endpoints()
    assert (state.status, state.is_over(), state.when_over) == ("Creating", True, "delete")
    # SageMaker's work ends some day.
    account.hosting.kinds["Endpoint"]["emotion"].looks = account.hosting.looks = 0
    endpoints.undeploy("emotion", quiet)
    assert listed(account) == {}


@pytest.mark.slow
def test_the_same_command_completes_a_replacement_after_ctrl_c(
    account: Account, endpoints: SageMakerEndpoints, spec: Spec, tmp_path: Path
) -> None:
    """A change that SageMaker has started cannot be undone."""

    endpoints.deploy(spec(), quiet)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    account.hosting.looks = 3
    with pytest.raises(KeyboardInterrupt):
        opened(tmp_path, WaitPolicy(sleep=interrupted)).deploy(spec(run_id="9999fff", replace=True), quiet)
    assert listed(account) == {"Models": 2, "EndpointConfigs": 2, "Endpoints": 1}
    assert endpoints.deploy(spec(run_id="9999fff"), quiet).run_id == "9999fff"
    assert listed(account) == {"Models": 1, "EndpointConfigs": 1, "Endpoints": 1}


@pytest.mark.slow
def test_a_failed_endpoint_is_replaced(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    endpoints.deploy(spec(), quiet)
    account.hosting.kinds["Endpoint"]["emotion"].status = "Failed"
    assert endpoints.describe("emotion").status == "Failed"
    assert endpoints.deploy(spec(run_id="9999fff"), quiet).run_id == "9999fff"
    assert listed(account) == {"Models": 1, "EndpointConfigs": 1, "Endpoints": 1}


@pytest.mark.slow
def test_deploy_waits_for_an_endpoint_that_is_being_deleted(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec
) -> None:
    endpoints.deploy(spec(), quiet)
    hosted = account.hosting.kinds["Endpoint"]["emotion"]
    hosted.status, hosted.looks = "Deleting", 3
    assert endpoints.deploy(spec(), quiet).status == "InService"
    assert [each for _, each in account.api.calls].count("CreateEndpoint") == 2


def test_a_name_that_another_command_took_is_refused(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, tmp_path: Path
) -> None:
    """Another command takes the name between the check and the creation. It keeps the name."""
    other = opened(tmp_path)

    def cut_in(line: str) -> None:
        if line.startswith("Image:"):
            other.deploy(spec(run_id="9999fff"), quiet)

    with pytest.raises(
        EndpointTaken, match="Endpoint emotion cannot be created: endpoint emotion exists in this region"
    ):
        endpoints.deploy(spec(), cut_in)
    assert endpoints.describe("emotion").run_id == "9999fff"
    assert listed(account) == {"Models": 1, "EndpointConfigs": 1, "Endpoints": 1}


@pytest.mark.slow
def test_equal_concurrent_commands_share_one_endpoint(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, tmp_path: Path
) -> None:
    other = opened(tmp_path)

    def cut_in(line: str) -> None:
        if line.startswith("Image:"):
            other.deploy(spec(), quiet)

    assert endpoints.deploy(spec(), cut_in).status == "InService"
    assert listed(account) == {"Models": 1, "EndpointConfigs": 1, "Endpoints": 1}


@pytest.mark.slow
def test_a_half_changed_endpoint_is_not_deleted(endpoints: SageMakerEndpoints, account: Account, spec: Spec) -> None:
    """The endpoint serves two models and still answers, so a failed `deploy` does not delete it."""
    endpoints.deploy(spec(), quiet)
    account.hosting.kinds["Endpoint"]["emotion"].status = "UpdateRollbackFailed"
    with pytest.raises(EndpointFailed, match="Endpoint emotion failed: its status is UpdateRollbackFailed"):
        endpoints.deploy(spec(), quiet)
    assert listed(account) == {"Models": 1, "EndpointConfigs": 1, "Endpoints": 1}
