"""The caller's account, the role of jobs, and the errors of AWS."""

from __future__ import annotations

import socket

import pytest

from tests.support.aws.account import ACCOUNT, ROLE, Account
from training.contract.errors import (
    AccessError,
    InputError,
    JobExists,
    JobNotFound,
    QuotaError,
    ServiceError,
    Unreachable,
)
from training.services.sagemaker.aws_errors import response_error
from training.services.sagemaker.clients import Clients, account_of, role_of


def test_the_account_is_that_of_the_credentials(account: Account) -> None:
    assert account_of(Clients()) == ACCOUNT


def test_a_role_is_found_by_name_and_by_arn(account: Account) -> None:
    account.make_role()
    assert role_of(Clients(), "trainer") == role_of(Clients(), ROLE) == ROLE


def test_a_role_that_does_not_exist_is_an_error(account: Account) -> None:
    with pytest.raises(AccessError, match=r"Role nobody does not exist in this account: set aws.role to the name"):
        role_of(Clients(), "nobody")


def test_a_role_is_required_outside_sagemaker(account: Account) -> None:
    with pytest.raises(InputError, match=r"aws\.role is not set, and this process does not run inside SageMaker"):
        role_of(Clients(), None)


def test_missing_credentials_are_an_error(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(AccessError, match=r"AWS: AWS credentials are missing .* Nothing was started"):
        account_of(Clients())


def test_a_missing_region_is_an_error(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    with pytest.raises(InputError, match=r"No AWS region is set"):
        Clients()


def test_a_region_that_does_not_answer_is_an_error(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # it does not listen, and nothing else can
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
        monkeypatch.setattr("training.services.sagemaker.clients.QUICK_ATTEMPTS", 1)
        with pytest.raises(Unreachable, match=r"AWS: AWS does not answer .*; check the region and the network"):
            account_of(Clients())


@pytest.mark.parametrize(
    ("code", "message", "kind", "expected"),
    [
        ("ExpiredTokenException", "expired", AccessError, "credentials have expired: renew them"),
        ("UnrecognizedClientException", "bad token", AccessError, "AWS does not know the credentials (bad token)"),
        ("AccessDeniedException", "no iam:PassRole", AccessError, "access is denied: no iam:PassRole. docs/aws.md"),
        ("ResourceInUse", "", JobExists, "Job a already exists at SageMaker"),
        ("ValidationException", "Requested resource not found.", JobNotFound, "Job a does not exist at SageMaker"),
        ("ValidationException", "Bad enum.", InputError, "SageMaker rejected the request: Bad enum."),
        ("ThrottlingException", "Rate exceeded", Unreachable, "AWS throttles the calls (Rate exceeded)"),
        ("InternalFailure", "", ServiceError, "Job a: InternalFailure: InternalFailure."),
    ],
)
def test_each_error_response_has_its_error_class(code: str, message: str, kind: type, expected: str) -> None:
    error = response_error("Job a", {"Error": {"Code": code, "Message": message}})
    assert type(error) is kind
    assert expected in str(error)


@pytest.mark.parametrize(
    ("limit", "requested", "hint"),
    [
        (0, 1, "is 0: request an increase under Service Quotas, SageMaker, or choose another instance type"),
        (2, 4, "is 2, and 4 were requested: request an increase under Service Quotas"),
        (2, 2, "is 2: all of it is in use; try again when other jobs have ended."),
    ],
)
def test_a_quota_error_states_the_limit_and_the_remedy(limit: int, requested: int, hint: str) -> None:
    message = (
        f"The account-level service limit 'ml.p3dn.24xlarge for training job usage' is {limit} Instances, with current "
        f"utilization of {limit} Instances and a request delta of {requested} Instances."
    )
    error = response_error("Job a", {"Error": {"Code": "ResourceLimitExceeded", "Message": message}})
    assert isinstance(error, QuotaError)
    assert (error.quota, error.is_final) == ("ml.p3dn.24xlarge for training job usage", limit < requested)
    assert hint in str(error)
