"""Channels of a script: files, folders and objects in S3 that it reads unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from training.contract.errors import InputError, nearest
from training.contract.job_spec import ChannelOptions
from training.scripts.channel_fields import ScriptChannel
from training.scripts.folders import check_folder, digest_folder
from training.services.sagemaker.user_data.account_fields import ANY_ACCOUNT, AccountFields
from training.services.sagemaker.user_data.location import is_s3
from training.staging.formats.files import digest_file
from training.staging.models.model_files import PACKAGE_PREFIX, locate
from training.staging.sources.docstrings import docstring_file
from training.state.regular_files import user_path

BUILTIN_PREFIX = "builtin:"
BUILTINS = ("docstrings",)


@dataclass(frozen=True, kw_only=True)
class Channels:
    """The channels of a script."""

    uris: Mapping[str, str]
    """Channel name to the `file://` URI of its file or folder, or to its URI on SageMaker; see `JobSpec.channels`."""
    options: Mapping[str, ChannelOptions]
    """Options of the channels that have any."""
    digest: str
    """SHA-256 of names and contents. Objects in S3 count with their keys, sizes and ETags."""
    description: str
    """Origin of each channel, for messages."""
    notes: tuple[str, ...] = ()
    """Sentences for the user before the job starts."""


@dataclass(frozen=True, kw_only=True)
class _Channel:
    """One channel."""

    uri: str
    content: str
    """Text that differs for other content."""
    description: str
    notes: tuple[str, ...] = ()


def find_channels(channels: Mapping[str, ScriptChannel], home: Path, account: AccountFields = ANY_ACCOUNT) -> Channels:
    """Return the channels.

    A source is a file, a folder, `package:NAME` (a packaged model), `builtin:docstrings`, an `s3://` URI, whose objects
    are listed and not read, or a directory of a file system, whose files are not listed.
    """
    resolved = {name: _channel(name, source, home, account) for name, source in sorted(channels.items())}
    digest = hashlib.sha256()
    for name, each in resolved.items():
        digest.update(f"{name}\0{each.content}\0".encode())
    return Channels(
        uris={name: each.uri for name, each in resolved.items()},
        options={name: each.options for name, each in channels.items() if each.options != ChannelOptions()},
        digest=digest.hexdigest(),
        description=", ".join(f"{name}: {resolved[name].description}" for name in channels)
        or "loaded by the script itself",
        notes=tuple(note for each in resolved.values() for note in each.notes),
    )


def _channel(name: str, channel: ScriptChannel, home: Path, account: AccountFields) -> _Channel:
    field = f"script.channels.{name}"
    if channel.file_system is not None:
        uri = f"{str(channel.kind).lower()}://{channel.file_system}{channel.path}"
        note = f"{field} is a directory of a file system: the version of its files is not recorded."
        return _Channel(uri=uri, content=uri, description=uri, notes=(note,))
    source = str(channel.uri)
    if is_s3(source):
        return _stored(field, source, channel.type, account)
    path = _path(name, source, home)
    content = digest_folder(path, all_files=True) if path.is_dir() else f"{path.name} {digest_file(path)}"
    return _Channel(uri=path.as_uri(), content=content, description=source)


def _stored(field: str, uri: str, kind: str, account: AccountFields) -> _Channel:
    from training.services.sagemaker.clients import Clients
    from training.services.sagemaker.user_data.listing import object_data, prefix_data
    from training.services.sagemaker.user_data.manifest import manifest_data

    read = {"prefix": prefix_data, "manifest": manifest_data, "augmented-manifest": object_data}[kind]
    data = read(Clients(account.region, account.profile), field, uri)
    return _Channel(uri=uri, content=f"{uri} {data.digest}", description=f"{uri} ({data.size_text})", notes=data.notes)


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
        raise InputError(f"script.channels.{name} {source!r} must be a file or folder on this machine, or an s3:// URI")
    path = user_path(source, f"script.channels.{name}").absolute()
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
