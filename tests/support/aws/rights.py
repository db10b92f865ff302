"""Permissions in the policies of the documentation, and those that a call needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tests.conftest import ROOT

ACTIONS = {
    "s3:HeadBucket": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:CreateMultipartUpload": "s3:PutObject",
    "s3:UploadPart": "s3:PutObject",
    "s3:CompleteMultipartUpload": "s3:PutObject",
}
"""Calls whose permission has a different name."""


USERS = ("launcher", "endpoints")
"""Policies of users. The other ones are those of the jobs' role, and additions."""


def action_of(service: str, operation: str) -> str:
    """Return the permission for an operation, such as `s3:ListBucket` for HeadBucket."""
    action = f"{service}:{operation}"
    return ACTIONS.get(action, action)


def rest_action(method: str, path: str, query: str) -> str:
    """Return the permission for a call of S3 by its method, path and query (RFC 3986)."""
    is_object = len([part for part in path.split("/") if part]) > 1
    if not is_object:
        return {"PUT": "s3:CreateBucket", "DELETE": "s3:DeleteBucket"}.get(method, "s3:ListBucket")
    if method == "DELETE":
        return "s3:AbortMultipartUpload" if "uploadId=" in query else "s3:DeleteObject"
    return "s3:GetObject" if method in {"GET", "HEAD"} else "s3:PutObject"


def allowed(action: str, resource: str, policies: tuple[str, ...] = USERS, **values: str) -> bool:
    """Return whether the documented policies allow an action on a resource. `values` fill in their placeholders."""
    for name in policies:
        for statement in policy(name)["Statement"]:
            patterns = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
            if action in statement["Action"] and any(fnmatchcase(resource, _filled(each, values)) for each in patterns):
                return True
    return False


def _filled(pattern: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        pattern = pattern.replace(name, value)
    return pattern


def documented() -> set[str]:
    """Return all permissions of users."""
    return {action for name in USERS for action in actions(name)}


def policy(name: str) -> dict[str, Any]:
    text = (ROOT / "docs" / "aws.md").read_text()
    match = re.search(rf"```json policy-{name}\n(.*?)```", text, re.DOTALL)
    assert match
    return dict(json.loads(match[1]))


def actions(name: str) -> Iterator[str]:
    for statement in policy(name)["Statement"]:
        yield from statement["Action"]
