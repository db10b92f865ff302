"""Messages for botocore's errors while it finds or renews credentials: each says what to do."""

from __future__ import annotations

import os

from botocore import exceptions

from training.contract.errors import AccessError

SSO = (
    exceptions.SSOError,
    exceptions.TokenRetrievalError,
    exceptions.NoAuthTokenError,
    exceptions.UnknownTokenProviderError,
)
"""Errors of profiles that sign in with IAM Identity Center, and of their tokens."""
CONFIGURATION = (
    exceptions.InvalidConfigError,
    exceptions.ConfigParseError,
    exceptions.ConfigNotFound,
    exceptions.UnknownCredentialError,
)
CREDENTIAL_ERRORS = (
    *(exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.ProfileNotFound),
    *(exceptions.CredentialRetrievalError, exceptions.LoginError),
    *SSO,
    *CONFIGURATION,
)


def credential_error(what: str, error: exceptions.BotoCoreError) -> AccessError:
    """Return our error for one of `CREDENTIAL_ERRORS`. `what` names the object of the call."""
    problem, remedy = _problem(error), _remedy(error)
    return AccessError(f"{what}: {problem} ({first_line(error)}): {remedy}.")


class _Profile:
    """Profile of the newest clients, if their maker named one. The errors do not contain it."""

    name: str | None = None


def remember_profile(name: str | None) -> None:
    """Name the profile of clients in later errors. None means that of the environment."""
    _Profile.name = name


def profile() -> str:
    """Return the name of the AWS profile that botocore uses."""
    return _Profile.name or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, without its full stop; its class if it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".: ")


def _problem(error: exceptions.BotoCoreError) -> str:
    if isinstance(error, exceptions.NoCredentialsError):
        return "AWS credentials are missing"
    if isinstance(error, exceptions.PartialCredentialsError):
        return "AWS credentials are incomplete"
    if isinstance(error, exceptions.ProfileNotFound):
        return f"the AWS profile {profile()} does not exist"
    if isinstance(error, exceptions.CredentialRetrievalError):
        return f"AWS credentials of profile {profile()} could not be retrieved"
    if isinstance(error, CONFIGURATION):
        return "the AWS configuration is wrong"
    return f"the AWS sign-in of profile {profile()} is missing or has expired"


def _remedy(error: exceptions.BotoCoreError) -> str:
    if isinstance(error, exceptions.NoCredentialsError):
        return "run `aws configure` or `aws sso login`, or set AWS_PROFILE. Nothing was started"
    if isinstance(error, exceptions.PartialCredentialsError):
        return "set both the access key and the secret key, or neither"
    if isinstance(error, exceptions.ProfileNotFound):
        return "set aws.profile or AWS_PROFILE to a profile that `aws configure list-profiles` shows"
    if isinstance(error, exceptions.CredentialRetrievalError):
        source = "`credential_process`" if error.kwargs.get("provider") == "custom-process" else "source of credentials"
        return f"check the {source} of this profile in ~/.aws/config, then run the same command again"
    if isinstance(error, CONFIGURATION):
        return f"correct profile {profile()} in ~/.aws/config"
    if isinstance(error, exceptions.LoginInsufficientPermissions):
        return "ask your administrator for the permission signin:CreateOAuth2Token"
    command = "aws login" if isinstance(error, exceptions.LoginError) else "aws sso login"
    return f"run `{command} --profile {profile()}`, then the same command again"
