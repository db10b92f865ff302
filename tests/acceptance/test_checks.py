"""Checks before an acceptance, and its refusals: nothing is uploaded or started."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from acceptance.__main__ import main
from acceptance.checks import Check, run_checks
from acceptance.options import Options
from acceptance.steps import STEPS, needed_quotas
from tests.support.aws.account import BUCKET, ROLE, Account
from tests.support.aws.api import ApiError
from tests.support.aws.rights import actions
from training.services.sagemaker.clients import Clients

DENIED = ApiError("AccessDeniedException", "User: me is not authorized to perform: servicequotas:ListServiceQuotas")
Checks = Callable[..., dict[str, Check]]


@pytest.fixture
def ready(account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Account:
    """An account with the role and the quotas that all steps need."""
    account.make_role()
    account.quotas.values.update(needed_quotas(STEPS))
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    return account


@pytest.fixture
def checks(ready: Account, tmp_path: Path) -> Checks:
    """Returns a function that runs the checks with some options."""

    def run(**fields: str) -> dict[str, Check]:
        options = Options(**{"role": "trainer", "budget_usd": 1.0, "folder": tmp_path / "ab12", **fields})
        return {each.name: each for each in run_checks(options, Clients(), STEPS)}

    return run


def test_a_ready_account_passes_every_check(checks: Checks) -> None:
    results = checks()
    assert {each.outcome for each in results.values()} == {"ok"}
    assert results["role"].detail == ROLE
    assert results["bucket"].detail == f"{BUCKET} does not exist and will be created"
    assert "huggingface-pytorch-training" in results["image for training"].detail
    assert "huggingface-pytorch-inference" in results["image for the endpoint"].detail


def test_the_checks_need_only_the_documented_permissions(checks: Checks, ready: Account) -> None:
    checks()
    assert ready.actions - {*actions("launcher"), *actions("endpoints")} == set(actions("acceptance"))


def test_a_low_quota_is_named(checks: Checks, ready: Account) -> None:
    """Names of quotas are spread over several pages."""
    ready.quotas.values["ml.g4dn.xlarge for training warm pool usage"] = 0
    result = checks()["quotas"]
    assert result.outcome == "failed"
    assert result.detail.startswith("'ml.g4dn.xlarge for training warm pool usage' is 0 and must be 1: request")


def test_quotas_that_cannot_be_read_are_not_checked(checks: Checks, ready: Account) -> None:
    ready.quotas_api.faults.last("ListServiceQuotas", DENIED)
    result = checks()["quotas"]
    assert result.outcome == "not checked"
    assert "servicequotas:ListServiceQuotas" in result.detail
    assert "'ml.g4dn.xlarge for training job usage' 2" in result.detail


def test_quotas_that_are_not_listed_are_not_checked(checks: Checks, ready: Account) -> None:
    ready.quotas.values.clear()
    assert checks()["quotas"].outcome == "not checked"


def test_a_role_that_sagemaker_may_not_assume_fails(checks: Checks, ready: Account) -> None:
    trust = {
        "Statement": {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    }
    ready.clients["iam"].create_role(RoleName="other", AssumeRolePolicyDocument=json.dumps(trust))
    result = checks(role="other")["role"]
    assert result.outcome == "failed"
    assert "does not allow sagemaker.amazonaws.com to assume it" in result.detail
    assert checks(role="nobody")["role"].detail.startswith("Role nobody does not exist")


def test_a_missing_bucket_fails(checks: Checks) -> None:
    assert checks(bucket="nowhere-at-all")["bucket"].outcome == "failed"


def test_missing_credentials_are_the_only_message(checks: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert [(each.name, each.outcome) for each in checks().values()] == [("credentials", "failed")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"--budget": "0.9"}, "BUDGET is 0.9 USD, but the steps can cost 0.94 USD"),
        ({"--budget": "0"}, "BUDGET is '0': it must be a number above 0"),
        ({"--budget": ""}, "BUDGET is ''"),
        ({"--role": ""}, "ROLE is missing"),
        ({"--role": "nobody"}, "The account is not ready (role)"),
        ({"--mlflow": "http://localhost:5000"}, "MLFLOW is 'http://localhost:5000'"),
        ({"--prices": ""}, "The price of ml.g4dn.xlarge is unknown"),
    ],
)
def test_nothing_is_started_or_uploaded_after_a_refusal(
    ready: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, str], message: str
) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g4dn.xlarge": 0.7364}}))
    fields = {"--role": "trainer", "--budget": "1", "--prices": str(prices), "--folder": str(tmp_path / "results")}
    assert main([word for pair in (fields | options).items() for word in pair]) in {1, 2}
    [error] = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {message}")
    assert ready.jobs.names() == []
    assert ready.clients["s3"].list_buckets()["Buckets"] == []
    assert not (tmp_path / "results").exists()
