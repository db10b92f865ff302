"""Unpack a job's model artifact from a stream, without loading it into memory.

Any script may have written the archive, so it is treated as untrusted: no file is written outside the folder.
"""

from __future__ import annotations

import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from training.contract.errors import ArtifactError, first_line

CHUNK_BYTES = 2**20
MAX_MEMBERS = 10_000
"""Limit on the number of files; a model has a few dozen."""
RESERVED_BYTES = 2**28
"""Space to leave free on the disk to which an artifact is unpacked, in bytes."""


def unpack(
    archive: BinaryIO, folder: Path, *, archive_name: str, is_selected: Callable[[PurePosixPath], bool] = lambda _: True
) -> int:
    """Write the files of a `tar.gz` to `folder` as they are read, and return their total size in bytes.

    `archive_name` is for messages; `is_selected` selects the files to write. Raises ArtifactError if the archive is
    broken, does not fit on the disk, contains anything except files and folders, or has a path outside the folder.
    """
    written = 0
    try:
        with tarfile.open(fileobj=archive, mode="r|*", bufsize=CHUNK_BYTES) as tar:
            for number, member in enumerate(tar):
                if number >= MAX_MEMBERS:
                    raise ArtifactError(f"{archive_name} contains more than {MAX_MEMBERS} files")
                path = _checked_path(member, archive_name)
                if member.isfile() and is_selected(path):
                    written += _write(tar, member, folder / path, archive_name)
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise ArtifactError(f"{archive_name} is not a complete tar archive: {first_line(error)}") from error
    return written


def _checked_path(member: tarfile.TarInfo, archive_name: str) -> PurePosixPath:
    """Return the path of a member within the folder. Raises ArtifactError for a member that must not be unpacked."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\0" in member.name:
        raise ArtifactError(f"{archive_name} contains '{member.name[:200]}', which is outside its folder")
    if not (member.isfile() or member.isdir()):
        kind = "a link" if member.issym() or member.islnk() else "neither a file nor a folder"
        raise ArtifactError(f"{archive_name} contains '{member.name[:200]}', which is {kind}")
    return path


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, archive_name: str) -> int:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        free_bytes = shutil.disk_usage(target.parent).free - RESERVED_BYTES
        if member.size > free_bytes:
            raise ArtifactError(
                f"{archive_name} does not fit on the disk of {target.parent}: '{member.name[:200]}' is "
                f"{member.size / 2**20:.0f} MiB, but only {max(0, free_bytes) / 2**20:.0f} MiB are available"
            )
        source = tar.extractfile(member)
        assert source is not None  # The member is a file.
        with target.open("wb") as file:
            shutil.copyfileobj(source, file, CHUNK_BYTES)
    except OSError as error:
        if error.errno is None:  # An error in reading the archive, not in writing the file.
            raise
        raise ArtifactError(f"{archive_name} cannot be unpacked: {error}") from error
    return member.size
