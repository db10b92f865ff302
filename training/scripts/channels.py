"""Channels of a script: files and folders that it reads unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from training.contract.errors import InputError, nearest
from training.scripts.folders import check_folder, digest_folder
from training.staging.formats.files import digest_file
from training.staging.models.model_files import PACKAGE_PREFIX, locate
from training.staging.sources.docstrings import docstring_file

BUILTIN_PREFIX = "builtin:"
BUILTINS = ("docstrings",)


@dataclass(frozen=True, kw_only=True)
class Channels:
    """The channels of a script."""

    uris: Mapping[str, str]
    """Channel name to `file://` URI of its file or folder."""
    digest: str
    """SHA-256 of names and contents."""
    description: str
    """Origin of each channel, for messages."""


def find_channels(channels: Mapping[str, str], home: Path) -> Channels:
    """Return the channels. A source is a file, a folder, `package:NAME` (a packaged model) or `builtin:docstrings`."""
    paths = {name: _path(name, source, home) for name, source in sorted(channels.items())}
    digest = hashlib.sha256()
    for name, path in paths.items():
        content = digest_folder(path, all_files=True) if path.is_dir() else f"{path.name} {digest_file(path)}"
        digest.update(f"{name}\0{content}\0".encode())
    return Channels(
        uris={name: path.as_uri() for name, path in paths.items()},
        digest=digest.hexdigest(),
        description=", ".join(f"{name}: {source}" for name, source in channels.items())
        or "loaded by the script itself",
    )


def _path(name: str, source: str, home: Path) -> Path:
    if source.startswith(PACKAGE_PREFIX):
        folder = locate(source).folder
        assert folder is not None, "a packaged model is a folder"
        return folder
    if source.startswith(BUILTIN_PREFIX):
        builtin = source.removeprefix(BUILTIN_PREFIX)
        if builtin not in BUILTINS:
            raise InputError(
                f"script.channels.{name} {source!r} is unknown; use builtin:docstrings.{nearest(builtin, BUILTINS)}"
            )
        return docstring_file(home / "docstrings").absolute()
    if "://" in source:
        raise InputError(f"script.channels.{name} {source!r} must be a file or folder on this machine")
    path = Path(source).expanduser().absolute()
    if not path.exists():
        siblings = (entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else ()
        raise InputError(f"script.channels.{name} {source!r} does not exist.{nearest(path.name, siblings)}")
    if path.is_dir():
        check_folder(f"script.channels.{name}", path, path, all_files=True)
    elif not path.is_file():
        raise InputError(
            f"script.channels.{name} {source!r} is a device, a pipe or a socket: it must be a file or folder"
        )
    return path
