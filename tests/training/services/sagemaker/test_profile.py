"""Credentials of `aws.profile`, which the environment does not have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from tests.support.aws.account import ACCOUNT, Account
from tests.training.services.sagemaker.conftest import Terminal
from training.contract.errors import AccessError

OTHER_ROLE = "arn:aws:iam::210987654321:role/trainer"


@pytest.fixture
def profile(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The only profile with credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    file.write_text("[research]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = example\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    return "research"


def test_a_job_and_its_data_in_s3_need_no_other_credentials(terminal: Terminal, account: Account, profile: str) -> None:
    s3 = account.clients["s3"]
    s3.create_bucket(Bucket="team-data")
    rows = "".join(json.dumps({"text": f"row {n}", "label": "even" if n % 2 else "odd"}) + "\n" for n in range(32))
    s3.put_object(Bucket="team-data", Key="rows.jsonl", Body=rows.encode())
    fields = {"data.train": "s3://team-data/rows.jsonl"}
    without = terminal("plan", {"verb": "train", **fields})
    assert without.code != 0
    assert "AWS credentials are missing" in without.error + without.out
    output = terminal("plan", {"verb": "train", **fields, "aws.profile": profile})
    assert output.code == 0, output
    unknown = terminal("train", {"aws.profile": "other"})
    assert unknown.code == 1
    assert "The config profile (other) could not be found" in unknown.error


def test_endpoints_use_it(profile: str) -> None:
    assert SageMakerEndpoints({"profile": profile}, lambda _: None).account == ACCOUNT
    with pytest.raises(AccessError, match="AWS credentials are missing"):
        SageMakerEndpoints({}, lambda _: None)


@pytest.mark.slow
def test_attach_refuses_credentials_of_another_account(terminal: Terminal, account: Account) -> None:
    output = terminal("train", {"wait": "false", "aws.role": OTHER_ROLE})
    assert output.code == 0, output
    [group] = terminal.runs("group")
    name = group.data.tags["platform.group"]
    refused = terminal.run("attach", "--group", name)
    assert refused.code == 1
    assert refused.error == (
        f"error: the jobs of group {name} belong to AWS account 210987654321, but the credentials belong to account "
        f"{ACCOUNT}: set AWS_PROFILE to a profile of account 210987654321. attach does not read aws.profile.\n"
    )
