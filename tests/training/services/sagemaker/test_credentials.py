"""Errors of AWS profiles, from real configuration files: one sentence with what to do."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path

import pytest
from botocore import exceptions

from tests.support.aws.account import Account
from training.contract.errors import AccessError
from training.services.sagemaker.aws_errors import CREDENTIAL_ERRORS, translated
from training.services.sagemaker.clients import Clients, account_of

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
LEGACY = f"""
[profile team]
sso_start_url = {START}
sso_region = us-east-1
sso_account_id = 123456789012
sso_role_name = trainer
"""
SIGN_IN = r"the AWS sign-in of profile team is missing or has expired \(.+\): run `aws sso login --profile team`, then"


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


@pytest.mark.parametrize("configuration", [SESSION, LEGACY], ids=["session", "legacy"])
def test_a_missing_or_expired_sign_in_names_the_command(home: Path, configuration: str) -> None:
    assert re.fullmatch(rf"AWS: {SIGN_IN} the same command again\.", message(home, configuration))
    key = sha1((START if "sso-session" not in configuration else "team").encode()).hexdigest()
    ended = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    token = {"startUrl": START, "region": "us-east-1", "accessToken": "x", "expiresAt": ended}
    (home / ".aws" / "sso" / "cache" / f"{key}.json").write_text(json.dumps(token))
    assert "run `aws sso login --profile team`" in message(home, configuration)


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        (
            f"[profile team]\ncredential_process = {sys.executable} -c \"import sys; sys.exit('vault is sealed')\"\n",
            "AWS credentials of profile team could not be retrieved (Error when retrieving credentials from "
            "custom-process: vault is sealed): check the `credential_process` of this profile in ~/.aws/config",
        ),
        (
            "[profile other]\nregion = us-east-1\n",
            "the AWS profile team does not exist (The config profile (team) could not be found): set aws.profile or "
            "AWS_PROFILE to",
        ),
        (
            "[profile team]\naws_access_key_id = AKIA\n",
            "AWS credentials are incomplete (Partial credentials found in ",
        ),
        (
            "[profile team]\nrole_arn = arn:aws:iam::123456789012:role/a\nsource_profile = none\n",
            'the AWS configuration is wrong (The source_profile "none" referenced in the profile "team" does not '
            "exist): correct profile team in ~/.aws/config.",
        ),
        (
            "[profile team\n",
            "the AWS configuration is wrong (Unable to parse config file: ",
        ),
    ],
)
def test_other_errors_of_profiles_are_one_sentence(home: Path, configuration: str, expected: str) -> None:
    assert expected in message(home, configuration)


def test_every_error_of_credentials_is_an_access_error() -> None:
    """botocore 1.44.5, `exceptions.py`: all classes about credentials, tokens, sign-in and profiles."""
    names = ("Credential", "SSO", "Token", "Login", "ProfileNotFound")
    classes = [
        each
        for name, each in vars(exceptions).items()
        if isinstance(each, type)
        and issubclass(each, exceptions.BotoCoreError)
        and any(part in name for part in names)
        and name not in {"InvalidChecksumConfigError", "MissingServiceIdError"}
    ]
    assert len(classes) >= 14
    for each in classes:
        assert issubclass(each, CREDENTIAL_ERRORS), each
        words = dict.fromkeys(("provider", "error_msg", "cred_var", "profile", "name", "auth_token"), "x")
        with pytest.raises(AccessError, match=r"^Job a: .+ \(.+\): .+\.$"), translated("Job a"):
            raise each(**words)
