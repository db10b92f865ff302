"""The caller's account and profile, the role of jobs, the partitions, and the errors of AWS."""

from __future__ import annotations

import json
import socket
import threading
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path

import pytest

from tests.support.aws.account import ACCOUNT, ROLE, Account
from tests.training.services.sagemaker.conftest import Terminal
from training.contract.errors import (
    AccessError,
    CredentialsError,
    InputError,
    JobExists,
    JobNotFound,
    QuotaError,
    ServiceError,
    Unreachable,
)
from training.services.sagemaker.clients import (
    Clients,
    account_of,
    response_error,
    role_of,
)
from training.services.sagemaker.service import SageMakerService, log_address

START = "https://team.awsapps.com/start"
SESSION = f"""
[profile team]
sso_session = team
sso_account_id = 123456789012
sso_role_name = trainer
region = us-east-1
[sso-session team]
sso_start_url = {START}
sso_region = us-east-1
"""
OTHER_ROLE = "arn:aws:iam::210987654321:role/trainer"


def test_the_account_and_the_role_are_found(account: Account) -> None:
    assert account_of(Clients()) == ACCOUNT
    account.make_role()
    assert role_of(Clients(), "trainer") == role_of(Clients(), ROLE) == ROLE
    china = ROLE.replace("aws", "aws-cn", 1)
    assert role_of(Clients(), china) == china
    with pytest.raises(AccessError, match=r"Role nobody does not exist in this account: set aws.role to the name"):
        role_of(Clients(), "nobody")
    with pytest.raises(InputError, match=r"aws\.role is not set, and this process does not run inside SageMaker"):
        role_of(Clients(), None)


def test_missing_credentials_and_a_missing_region_are_errors(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(AccessError, match=r"AWS: AWS credentials are missing .* then run the same command again"):
        account_of(Clients())
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
        ("ExpiredTokenException", "expired", CredentialsError, "credentials have expired: renew them"),
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


def test_logs_are_found_in_the_console_of_the_partition() -> None:
    in_china = log_address("cn-north-1", "/aws/jobs", "demo/")
    assert in_china == (
        "https://cn-north-1.console.amazonaws.cn/cloudwatch/home?region=cn-north-1"
        "#logsV2:log-groups/log-group/$252Faws$252Fjobs$3FlogStreamNameFilter$3Ddemo$252F"
    )


@pytest.fixture
def home(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder whose AWS profile is `team`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_CONFIG_FILE"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_PROFILE", "team")
    (tmp_path / ".aws" / "sso" / "cache").mkdir(parents=True)
    return tmp_path


def message(home: Path, configuration: str) -> str:
    """Return the error of the first call with this configuration. It is one line."""
    (home / ".aws" / "config").write_text(configuration)
    with pytest.raises(AccessError) as error:
        account_of(Clients())
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_missing_or_expired_sign_in_names_the_command(home: Path) -> None:
    assert "run `aws configure` or `aws sso login`" in message(home, SESSION)
    key = sha1(b"team").hexdigest()
    ended = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    token = {"startUrl": START, "region": "us-east-1", "accessToken": "x", "expiresAt": ended}
    (home / ".aws" / "sso" / "cache" / f"{key}.json").write_text(json.dumps(token))
    assert "run `aws configure` or `aws sso login`" in message(home, SESSION)


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


def keys_file(folder: Path, key: str) -> Path:
    file = folder / "credentials"
    file.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = example\n")
    return file


def test_a_service_waits_for_new_credentials_and_goes_on(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("training.services.sagemaker.clients.RENEWAL_SECONDS", 0.05)
    account.api.expired_keys.add("AKIAOLD")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys_file(tmp_path, "AKIAOLD")))
    with pytest.raises(CredentialsError, match="credentials have expired: renew them"):
        SageMakerService(Clients(credentials_wait_minutes=0)).describe("job")
    clients = Clients()
    renewal = threading.Timer(0.5, keys_file, (tmp_path, "AKIANEW"))
    renewal.start()
    with pytest.raises(JobNotFound):  # the answer to the call with the new credentials
        SageMakerService(clients).describe("job")
    renewal.join()
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("AWS credentials have expired. Waiting for new ones (`aws sso login`, ")
    assert line.endswith(" for at most 60 minutes. Running jobs continue.")


def test_credentials_in_the_environment_cannot_be_renewed(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    account.api.expired_keys.add("AKIAEXAMPLE")
    with pytest.raises(CredentialsError, match="credentials have expired"):
        SageMakerService(Clients()).describe("job")


def test_aws_login_is_refused_in_a_sentence(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (tmp_path / "config").write_text("[profile me]\nlogin_session = arn:aws:iam::123456789012:user/me\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with pytest.raises(
        AccessError, match=r"credentials of `aws login` need a package .* `pip install 'botocore\[crt\]'`"
    ):
        account_of(Clients(profile="me"))
