"""The archive with a model's files: the training job's artifact, or one that is packed and uploaded here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from models.endpoints.protocol import Echo, EndpointSpec
from models.endpoints.sagemaker import model_archive
from training.services.sagemaker.aws_context import AwsContext
from training.state.home import home

NOT_FETCHED = "s3://not-fetched-yet/model.tar.gz"
"""Placeholder for the archive of a model that is not fetched yet: its key is a hash of the model's files."""


class Archive:
    """Model archive for the container: the training job's artifact, or an archive packed here."""

    def __init__(self, spec: EndpointSpec, aws_context: AwsContext, *, with_code: bool) -> None:
        self._storage = aws_context.storage
        self._files: Mapping[str, Path] = {}
        own = spec.artifact_uri or ""
        if own.startswith("s3://") and not with_code and self._storage.exists(own):
            self.uri = own
            return
        if aws_context.storage.is_read_only and not spec.model.is_dir():
            self.uri = NOT_FETCHED
            return
        self._files = model_archive.archive_files(spec.model, with_code=with_code)
        self.uri = self._storage.uri(model_archive.archive_key(self._files))

    def upload(self, echo: Echo) -> None:
        """Upload the archive, unless it exists."""
        if self._files:
            model_archive.upload(self._storage, self._files, home() / "uploads", echo)

    def missing_bytes(self) -> dict[str, int]:
        """Return the size of the files that `upload` would pack, by the archive's URI; empty if the archive exists."""
        if not self._files or self._storage.has(model_archive.archive_key(self._files)):
            return {}
        return {self.uri: sum(path.stat().st_size for path in self._files.values())}
