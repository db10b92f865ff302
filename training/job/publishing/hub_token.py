"""Read the token for the Hugging Face Hub from an environment variable or a secret. No message contains the token."""

import json
import re
from typing import Any, Mapping, Optional

from reporting.errors import ArgumentError

TOKEN = re.compile(r"[!-~]+")
ARN_REGION = re.compile(r"arn:[^:]+:secretsmanager:([^:]+):.+")


def find_token(variable: str, secret: Optional[str], environment: Mapping[str, str]) -> str:
    """Return the token from the secret in AWS Secrets Manager or, if `secret` is None, from the environment variable.

    If the secret is a JSON object, its value under the variable's name is the token. Raises
    `ArgumentError` if there is no usable token.
    """
    if secret is None:
        source, text = f"environment variable {variable}", environment.get(variable, "")
    else:
        source, text = f"secret {secret}", _secret(secret, variable, environment)
    if not text.strip():
        raise ArgumentError(f"push_to_hub needs a token, but {source} is empty")
    if not TOKEN.fullmatch(text.strip()):
        raise ArgumentError(f"push_to_hub needs a token, but {source} contains characters that no token can have")
    return text.strip()


def _secret(name: str, key: str, environment: Mapping[str, str]) -> str:
    # Imported here because only jobs that push with a secret need it.
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise ArgumentError(f"secret {name} cannot be read: boto3 is not installed in this image") from None
    try:
        client = boto3.client("secretsmanager", region_name=_region(name, environment))
        text = str(client.get_secret_value(SecretId=name).get("SecretString", ""))
    except (BotoCoreError, ClientError) as error:
        raise ArgumentError(f"secret {name} cannot be read: {error}") from None
    fields = _parsed(text)
    return text if fields is None else str(fields.get(key, ""))


def _parsed(text: str) -> Optional[Mapping[str, Any]]:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _region(name: str, environment: Mapping[str, str]) -> Optional[str]:
    """Return the region in the secret's ARN, else the container's region. With None, boto3 selects the region."""
    arn = ARN_REGION.fullmatch(name)
    return arn.group(1) if arn else environment.get("AWS_REGION") or environment.get("SM_REGION") or None
