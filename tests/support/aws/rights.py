"""Permissions in the policies of the documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
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


def policy(name: str) -> dict[str, Any]:
    text = (ROOT / "docs" / "aws.md").read_text()
    match = re.search(rf"```json policy-{name}\n(.*?)```", text, re.DOTALL)
    assert match
    return dict(json.loads(match[1]))


def actions(name: str) -> Iterator[str]:
    for statement in policy(name)["Statement"]:
        yield from statement["Action"]
