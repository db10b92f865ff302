"""Channels of a script: files, folders and objects in S3 that it reads unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer

from state.digests import digest
from state.regular_files import user_path
from training.contract.errors import InputError, nearest_sibling
from training.contract.frozen import Frozen, Name
from training.contract.job_spec import ChannelOptions, DataType, Distribution, UnchangedOptions
from training.contract.s3_location import ANY_ACCOUNT, AccountFields, is_s3
from training.scripts.source import check_folder, digest_folder
from training.staging.formats.files import digest_file
from training.staging.models.model_files import PACKAGE_PREFIX, locate
from training.staging.sources.sources import docstring_file

DATA_TYPES: dict[str, DataType] = {
    "prefix": "S3Prefix",
    "manifest": "ManifestFile",
    "augmented-manifest": "AugmentedManifestFile",
}
DISTRIBUTIONS: dict[str, Distribution] = {"replicated": "FullyReplicated", "by-key": "ShardedByS3Key"}


@dataclass(frozen=True, kw_only=True)
class Channels:
    uris: Mapping[str, str]
    """Channel name to the `file://` URI of its file or folder, or to its URI on SageMaker; see `JobSpec.channels`."""
    options: Mapping[str, ChannelOptions]
    """Options of the channels that have any."""
    digest: str
    """SHA-256 of names and contents. Objects in S3 count with their keys, sizes and ETags."""
    description: str
    """Origin of each channel, for messages."""


@dataclass(frozen=True, kw_only=True)
class _Channel:
    uri: str
    content: str
    """Text that differs for other content."""
    description: str


def find_channels(channels: Mapping[str, ScriptChannel], home: Path, account: AccountFields = ANY_ACCOUNT) -> Channels:
    """Return the channels.

    A source is a file, a folder, `package:NAME` (a packaged model), `builtin:docstrings`, an `s3://` URI, whose objects
    are listed and not read, or a directory of a file system, whose files are not listed.
    """
    resolved = {name: _channel(name, source, home, account) for name, source in sorted(channels.items())}
    return Channels(
        uris={name: each.uri for name, each in resolved.items()},
        options={name: each.options for name, each in channels.items() if each.options != ChannelOptions()},
        digest=digest("".join(f"{name}\0{each.content}\0" for name, each in resolved.items())),
        description=", ".join(f"{name}: {resolved[name].description}" for name in channels)
        or "loaded by the script itself",
    )


def _channel(name: str, channel: ScriptChannel, home: Path, account: AccountFields) -> _Channel:
    field = f"script.channels.{name}"
    if channel.file_system is not None:
        uri = f"{str(channel.kind).lower()}://{channel.file_system}{channel.path}"
        return _Channel(uri=uri, content=uri, description=uri)
    source = str(channel.uri)
    if is_s3(source):
        from training.services.sagemaker.clients import Clients
        from training.services.sagemaker.storage import object_data, prefix_data

        read = prefix_data if channel.type == "prefix" else object_data
        data = read(Clients(account.region, account.profile), field, source)
        described = f"{source} ({data.size_text})"
        return _Channel(uri=source, content=f"{source} {data.digest}", description=described)
    path = _path(field, source, home)
    content = digest_folder(path, all_files=True) if path.is_dir() else f"{path.name} {digest_file(path)}"
    return _Channel(uri=path.as_uri(), content=content, description=source)


def _path(field: str, source: str, home: Path) -> Path:
    if source.startswith(PACKAGE_PREFIX):
        folder = locate(source).folder
        assert folder is not None, "a packaged model is a folder"
        return folder
    if source == "builtin:docstrings":
        return docstring_file(home / "docstrings").absolute()
    if "://" in source:
        raise InputError(f"{field} {source!r} must be a file or folder on this machine, or an s3:// URI")
    path = user_path(source, field).absolute()
    if not path.exists():
        raise InputError(f"{field} {source!r} does not exist.{nearest_sibling(path)}")
    if path.is_dir():
        check_folder(field, path, path, all_files=True)
    elif not path.is_file():
        raise InputError(f"{field} {source!r} is a device, a pipe or a socket: it must be a file or folder")
    return path


class ScriptChannel(Frozen, UnchangedOptions):
    """One channel of a script: files (`uri`) or a directory of a file system (`file_system`, `kind`, `path`)."""

    uri: Name | None = None
    """File, folder, `package:NAME`, `builtin:docstrings` or `s3://BUCKET/PREFIX/`."""
    type: Literal["prefix", "manifest", "augmented-manifest"] = "prefix"
    """Meaning of an S3 URI: the beginning of keys, a manifest of objects, or an augmented manifest (JSON lines)."""
    distribution: Literal["replicated", "by-key"] = "replicated"
    """Objects for each instance: all, or a share of them."""
    file_system: Annotated[str, Field(pattern=r"^fs-[0-9a-f]{8,18}$")] | None = None
    """Id of a file system of Amazon FSx for Lustre or of Amazon EFS."""
    kind: Literal["FSxLustre", "EFS"] | None = None
    """Kind of the file system."""
    path: Annotated[str, Field(pattern=r"^/", max_length=4_096)] | None = None
    """Directory of the file system. For FSx for Lustre, it begins with the mount name."""

    def broken_rule(self) -> str | None:
        """Return the rule of CreateTrainingJob that the channel breaks (botocore 1.44.5), or None."""
        if (self.uri is None) == (self.file_system is None):
            return "needs either uri or file_system"
        if self.file_system is not None:
            of_s3 = self.model_fields_set - {"file_system", "kind", "path", "access", "content_type"}
            if of_s3:
                return f"with file_system cannot have {min(of_s3)}, which is for data in S3"
            return None if self.kind and self.path else "with file_system needs its kind (FSxLustre or EFS) and a path"
        of_files = self.model_fields_set & {"kind", "path", "access"}
        if of_files:
            return f"with uri cannot have {min(of_files)}, which is for a file_system"
        if self.type != "prefix" and not is_s3(str(self.uri)):
            return f"with type {self.type} needs an s3:// URI of the manifest, not {str(self.uri)[:80]!r}"
        if (self.type == "augmented-manifest") != bool(self.attributes):
            return "needs attributes with type augmented-manifest, and only with it"
        if self.type == "augmented-manifest" and self.mode != "Pipe":
            return f"with type augmented-manifest needs mode Pipe, not {self.mode}"
        if (self.compression or self.record_wrapper) and self.mode != "Pipe":
            return f"with {'compression' if self.compression else 'record_wrapper'} needs mode Pipe, not {self.mode}"
        return None

    @model_serializer(mode="wrap")
    def _short(self, handler: SerializerFunctionWrapHandler) -> Any:
        """Return a channel that only has a URI as that text, as it is usually written."""
        return self.uri if self.uri is not None and self.options == ChannelOptions() else handler(self)

    @property
    def options(self) -> ChannelOptions:
        """Options under the names of CreateTrainingJob."""
        unchanged = {name: getattr(self, name) for name in UnchangedOptions.model_fields}
        return ChannelOptions(
            data_type=DATA_TYPES[self.type], distribution=DISTRIBUTIONS[self.distribution], **unchanged
        )

    @property
    def needs_streams(self) -> str | None:
        """Phrase for the part of the channel that a job on this machine cannot read, or None."""
        if self.file_system is not None:
            return f"is in the file system {self.file_system!r}, which"
        if is_s3(str(self.uri)):
            return f"{str(self.uri)[:80]!r}"
        if self.shuffle_seed is not None or self.instance_groups:
            return f"has {'instance_groups' if self.instance_groups else 'a shuffle_seed'}, which"
        return "has mode Pipe, which" if self.mode == "Pipe" else None


def _from_text(value: Any) -> Any:
    """Return the short form, a URI or a path alone, as a channel."""
    return {"uri": value} if isinstance(value, str) else value


def check_channels(channels: Mapping[str, ScriptChannel]) -> None:
    """Raise ValueError for a channel whose fields do not fit together."""
    for name, channel in channels.items():
        if broken := channel.broken_rule():
            raise ValueError(f"script.channels.{name} {broken}")


ScriptChannels = dict[Name, Annotated[ScriptChannel, BeforeValidator(_from_text)]]
