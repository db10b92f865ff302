"""Download and upload S3 objects like SageMaker's agent."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any


class Objects:
    """An account's objects, addressed by their URI."""

    def __init__(self, s3: Any) -> None:
        self._s3 = s3

    def put(self, uri: str, content: bytes) -> None:
        bucket, key = _location(uri)
        self._s3.put_object(Bucket=bucket, Key=key, Body=content)

    def fetch_file(self, uri: str, folder: Path) -> Path:
        """Download an object into the folder, and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / uri.rpartition("/")[2]
        bucket, key = _location(uri)
        self._s3.download_file(bucket, key, str(path))
        return path

    def fetch_folder(self, uri: str, folder: Path) -> int:
        """Download every object whose key starts with the URI, like SageMaker, and return their number.

        `S3DataSource.S3Uri`, botocore 1.44.5. A key that ends with a slash is the mark of a folder that S3's console
        writes.
        """
        bucket, prefix = _location(uri)
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        keys = [each["Key"] for page in pages for each in page.get("Contents", []) if not each["Key"].endswith("/")]
        folder.mkdir(parents=True, exist_ok=True)
        for key in keys:
            path = folder / _name(key, prefix)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._s3.download_file(bucket, key, str(path))
        return len(keys)


def _name(key: str, prefix: str) -> str:
    """Return the name of an object in a channel: its key after the folder in which the prefix ends."""
    if key.startswith(f"{prefix.rstrip('/')}/"):
        return key.removeprefix(prefix).lstrip("/")
    return key[prefix.rfind("/") + 1 :]


def _location(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def packed(folder: Path) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        tar.add(folder, arcname=".")
    return content.getvalue()
