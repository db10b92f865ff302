"""Download and upload S3 objects like SageMaker's agent."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from training.contract.errors import InputError


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


class SyncedFolder:
    """The checkpoint folder of one start of a job, and its prefix in S3."""

    def __init__(self, objects: Objects, uri: str, folder: Path) -> None:
        self._objects, self._uri, self._folder = objects, uri, folder
        objects.fetch_folder(uri, folder)
        self._uploaded = {path: state for path in self._files() if (state := _state(path))}

    def upload(self, cut_at: str | None = None) -> bool:
        """Upload the changed files. If a file matches `cut_at`, upload only half of it and return False."""
        for path in self._files():
            state, name = _state(path), path.relative_to(self._folder).as_posix()
            if state is None or self._uploaded.get(path) == state:
                continue
            try:
                content = path.read_bytes()
            except OSError:
                continue  # The job has just renamed or deleted it.
            is_cut = cut_at is not None and fnmatch(name, cut_at)
            self._objects.put(f"{self._uri}/{name}", content[: len(content) // 2] if is_cut else content)
            self._uploaded[path] = state
            if is_cut:
                return False
        return True

    def has(self, pattern: str) -> bool:
        """Return whether a file that matches the pattern has been uploaded."""
        return any(fnmatch(path.relative_to(self._folder).as_posix(), pattern) for path in self._uploaded)

    def _files(self) -> Iterator[Path]:
        """Return the files. `os.walk` skips a folder that the job has just deleted; `rglob` would raise an error."""
        folders = os.walk(self._folder)
        return iter(sorted(Path(folder, name) for folder, _, names in folders for name in names))


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def downloaded(request: Mapping[str, Any], objects: Objects, root: Path, environment: Mapping[str, str]) -> Any:
    """Download into `root`, and return the request with local paths and additional variables."""
    hyperparameters = dict(request["HyperParameters"])
    channels = [_channel(each, objects, root) for each in request.get("InputDataConfig", [])]
    source = objects.fetch_file(json.loads(hyperparameters["sagemaker_submit_directory"]), root / "source")
    hyperparameters["sagemaker_submit_directory"] = json.dumps(source.as_uri())
    # Only the Training Compiler's images support these flags.
    for key in [key for key in hyperparameters if key.startswith("sagemaker_training_compiler")]:
        del hyperparameters[key]
    variables = {**environment, **request.get("Environment", {})}
    return {**request, "HyperParameters": hyperparameters, "InputDataConfig": channels, "Environment": variables}


def _channel(channel: Mapping[str, Any], objects: Objects, root: Path) -> dict[str, Any]:
    """Download a channel with a prefix of S3. The account simulates no other kind of channel."""
    source, folder = channel["DataSource"]["S3DataSource"], root / "channels" / channel["ChannelName"]
    assert (source["S3DataType"], source["S3DataDistributionType"]) == ("S3Prefix", "FullyReplicated")
    if not objects.fetch_folder(source["S3Uri"], folder):
        raise InputError(
            f"Data download failed:No S3 objects found under S3 URL {source['S3Uri']} given in input data source."
        )
    return {**channel, "DataSource": {"S3DataSource": {**source, "S3Uri": folder.as_uri()}}}
