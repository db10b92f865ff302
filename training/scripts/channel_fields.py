"""Fields of one channel of a script, and the rules between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer

from training.contract.job_spec import ChannelOptions, DataType, Distribution, InputMode
from training.services.sagemaker.user_data.location import is_s3
from training.staging.sources.request import Frozen, Name

Access = Literal["ro", "rw"]
FileSystemKind = Literal["FSxLustre", "EFS"]

DATA_TYPES: dict[str, DataType] = {
    "prefix": "S3Prefix",
    "manifest": "ManifestFile",
    "augmented-manifest": "AugmentedManifestFile",
}
DISTRIBUTIONS: dict[str, Distribution] = {"replicated": "FullyReplicated", "by-key": "ShardedByS3Key"}


class ScriptChannel(Frozen):
    """One channel of a script: files (`uri`) or a directory of a file system (`file_system`, `kind`, `path`)."""

    uri: Name | None = None
    """File, folder, `package:NAME`, `builtin:docstrings` or `s3://BUCKET/PREFIX/`."""
    mode: InputMode = "File"
    """`File` copies the data before the start, `FastFile` reads each file when it is opened, `Pipe` streams the data
    through named pipes."""
    type: Literal["prefix", "manifest", "augmented-manifest"] = "prefix"
    """Meaning of an S3 URI: the beginning of keys, a manifest of objects, or an augmented manifest (JSON lines)."""
    attributes: Annotated[tuple[Name, ...], Field(strict=False, max_length=16)] = ()
    """Attributes of an augmented manifest to stream, in this order."""
    distribution: Literal["replicated", "by-key"] = "replicated"
    """Objects for each instance: all, or a share of them."""
    file_system: Annotated[str, Field(pattern=r"^fs-[0-9a-f]{8,18}$")] | None = None
    """Id of a file system of Amazon FSx for Lustre or of Amazon EFS."""
    kind: FileSystemKind | None = None
    """Kind of the file system."""
    path: Annotated[str, Field(pattern=r"^/", max_length=4_096)] | None = None
    """Directory of the file system. That of FSx for Lustre begins with the mount name."""
    access: Access = "ro"
    """Access to the file system: read-only or read and write."""

    def broken_rule(self) -> str | None:
        """Return the rule of CreateTrainingJob that the channel breaks (botocore 1.44.5), or None."""
        if (self.uri is None) == (self.file_system is None):
            return "needs either uri or file_system"
        if self.file_system is not None:
            of_s3 = self.model_fields_set & {"mode", "type", "attributes", "distribution"}
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
        return None

    @model_serializer(mode="wrap")
    def _short(self, handler: SerializerFunctionWrapHandler) -> Any:
        """Return a channel that only has a URI as that text, as it is usually written."""
        return self.uri if self.uri is not None and self.options == ChannelOptions() else handler(self)

    @property
    def options(self) -> ChannelOptions:
        """Options under the names of CreateTrainingJob."""
        return ChannelOptions(
            mode=self.mode,
            data_type=DATA_TYPES[self.type],
            attributes=self.attributes,
            distribution=DISTRIBUTIONS[self.distribution],
            access=self.access,
        )

    @property
    def only_on_sagemaker(self) -> str | None:
        """Phrase for the part of the channel that a job on this machine cannot read, or None."""
        if self.file_system is not None:
            return f"is in the file system {self.file_system!r}, which"
        if is_s3(str(self.uri)):
            return f"{str(self.uri)[:80]!r}"
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
