"""Files of a channel, as they become objects in S3. Reads only the folders of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

from training.contract.errors import InputError

MAX_KEY_BYTES = 800
"""Limit on the name of a file in a channel, in bytes of UTF-8. S3's keys have at most 1,024 (Amazon S3 user guide,
"Naming Amazon S3 objects"), and the rest is for the prefix."""


def channel_files(path: Path) -> dict[str, Path]:
    """Return the files of a channel by their names in it, sorted: a single file, or those of a folder and its links.

    Raises InputError if there is no file, or if a file's name cannot be a key of S3.
    """
    if path.is_file():
        files = [path]
        root = path.parent
    else:
        folders = os.walk(path, followlinks=True)
        files = sorted(file for parent, _, names in folders for file in (Path(parent, name) for name in names))
        root = path
    if not files:
        raise InputError(f"{path} contains no file, and SageMaker starts no job with an empty channel.")
    named = {file.relative_to(root).as_posix(): file for file in files if file.is_file()}
    for name in named:
        _check_key(root, name)
    return named


def local_folder(uri: str) -> Path | None:
    """Return the path of a `file://` URI, or None for any other URI."""
    return Path(unquote(urlparse(uri).path)) if uri.startswith("file://") else None


def check_channels(channels: Mapping[str, str]) -> None:
    """Raise InputError for a channel of this machine that cannot be uploaded. `channels` are URIs by name."""
    for name, uri in channels.items():
        if path := local_folder(uri):
            try:
                channel_files(path)
            except InputError as error:
                raise InputError(f"Channel '{name}': {error}") from error


def _check_key(root: Path, name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InputError(f"{root} contains a file whose name is not UTF-8, {name!r}: rename it.") from error
    if size > MAX_KEY_BYTES:
        raise InputError(
            f"{root} contains a file whose name has {size} bytes, {name[:60]!r}...: S3 allows {MAX_KEY_BYTES} here."
        )
