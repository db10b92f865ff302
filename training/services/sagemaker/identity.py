"""The caller's AWS account, and the role that jobs assume."""

from __future__ import annotations

import re

from botocore.exceptions import ClientError

from training.contract.errors import AccessError, InputError
from training.services.sagemaker.aws_errors import translated
from training.services.sagemaker.clients import Clients

ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/.+")
ASSUMED = re.compile(r"arn:aws[a-z-]*:sts::\d{12}:assumed-role/([^/]+)/")


def account_of(clients: Clients) -> str:
    """Return the account's number. Raises AccessError if no valid credentials exist."""
    with translated("AWS"):
        return str(clients.get("sts", quick=True).get_caller_identity()["Account"])


def role_of(clients: Clients, role: str | None) -> str:
    """Return the ARN of the role for jobs: `role` (an ARN or a name), by default the role that this process runs as.

    Inside SageMaker (a notebook, Studio, a job) this process runs as a role that jobs may assume. Elsewhere `role` is
    required, because SageMaker is rarely allowed to assume a user's IAM role.
    """
    if role and ROLE_ARN.fullmatch(role):
        return role
    if role:
        return _by_name(clients, role)
    with translated("AWS"):
        caller = str(clients.get("sts").get_caller_identity()["Arn"])
    assumed = ASSUMED.match(caller)
    if assumed and "sagemaker" in caller.lower():
        return _by_name(clients, assumed[1])
    raise InputError(
        "aws.role is not set, and this process does not run inside SageMaker: set aws.role to a role that SageMaker "
        "may assume, or set a role in the SageMaker SDK's config.yaml (docs/aws.md)."
    )


def _by_name(clients: Clients, name: str) -> str:
    with translated(f"Role {name}"):
        try:
            return str(clients.get("iam").get_role(RoleName=name.rpartition("/")[2])["Role"]["Arn"])
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchEntity":
                raise AccessError(
                    f"Role {name} does not exist in this account: set aws.role to the name or ARN of a role."
                ) from error
            raise
