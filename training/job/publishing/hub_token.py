"""The token for the Hugging Face Hub, read from where the job was told that it is. No message ever quotes it."""

import json
import re
from typing import Any, Mapping, Optional

from reporting.errors import ArgumentError

TOKEN = re.compile(r"[!-~]+")
ARN_REGION = re.compile(r"arn:[^:]+:secretsmanager:([^:]+):.+")


def find_token(variable: str, secret: Optional[str], environment: Mapping[str, str]) -> str:
    """Return the token: from the secret of AWS Secrets Manager where one is named, else from the variable.

    A secret that is a JSON object holds the token under the variable's name. Raises `ArgumentError`.
    """
    if secret is None:
        place, text = f"environment variable {variable}", environment.get(variable, "")
    else:
        place, text = f"secret {secret}", _secret(secret, variable, environment)
    if not text.strip():
        raise ArgumentError(f"push_to_hub needs a token, and {place} holds none")
    if not TOKEN.fullmatch(text.strip()):
        raise ArgumentError(f"push_to_hub needs a token, and what {place} holds has blanks or other signs within")
    return text.strip()


def _secret(name: str, key: str, environment: Mapping[str, str]) -> str:
    # Imported here: only jobs that push with a secret need it.
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise ArgumentError(f"secret {name} needs boto3, which this image does not have") from None
    try:
        client = boto3.client("secretsmanager", region_name=_region(name, environment))
        text = str(client.get_secret_value(SecretId=name).get("SecretString", ""))
    except (BotoCoreError, ClientError) as error:
        raise ArgumentError(f"secret {name} cannot be read: {error}") from None
    found = _parsed(text)
    return text if found is None else str(found.get(key, ""))


def _parsed(text: str) -> Optional[Mapping[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _region(name: str, environment: Mapping[str, str]) -> Optional[str]:
    """Return the secret's region as its ARN tells it, else that of the container; None is what boto3 is set to."""
    told = ARN_REGION.fullmatch(name)
    return told.group(1) if told else environment.get("AWS_REGION") or environment.get("SM_REGION") or None
