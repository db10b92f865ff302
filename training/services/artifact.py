"""A job's model artifact, unpacked from its stream: nothing of it is held in memory, nothing lands outside its folder.

An archive may come from a script that anybody wrote, so it is read as one from a stranger.
"""

from __future__ import annotations

import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from training.contract.errors import ArtifactError

CHUNK_BYTES = 2**20
MOST_MEMBERS = 10_000
"""A model has a few dozen files; an archive of more is not looked through."""
KEPT_FREE_BYTES = 2**28
"""What stays free on a disk that an artifact is unpacked to."""


def unpack(
    archive: BinaryIO, folder: Path, *, named: str, wanted: Callable[[PurePosixPath], bool] = lambda _: True
) -> int:
    """Write the files of a `tar.gz` to `folder` as they are read, and return their bytes.

    `named` is what messages call the archive, `wanted` tells which of its files are written. Raises ArtifactError for
    an archive that is broken, reaches out of the folder, holds anything but files and folders, or does not fit.
    """
    written = 0
    try:
        with tarfile.open(fileobj=archive, mode="r|*", bufsize=CHUNK_BYTES) as tar:
            for number, member in enumerate(tar):
                if number >= MOST_MEMBERS:
                    raise ArtifactError(f"{named} holds more than {MOST_MEMBERS} files")
                path = _checked(member, named)
                if member.isfile() and wanted(path):
                    written += _write(tar, member, folder / path, named)
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise ArtifactError(f"{named} is no whole tar archive: {_line(error)}") from error
    return written


def _checked(member: tarfile.TarInfo, named: str) -> PurePosixPath:
    """Return the path of a member within the folder. Raises ArtifactError for what may not be unpacked."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\0" in member.name:
        raise ArtifactError(f"{named} holds '{member.name[:200]}', which is outside of its folder")
    if not (member.isfile() or member.isdir()):
        kind = "a link" if member.issym() or member.islnk() else "neither a file nor a folder"
        raise ArtifactError(f"{named} holds '{member.name[:200]}', which is {kind}")
    return path


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, named: str) -> int:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        free_bytes = shutil.disk_usage(target.parent).free - KEPT_FREE_BYTES
        if member.size > free_bytes:
            raise ArtifactError(
                f"{named} does not fit on the disk of {target.parent}: '{member.name[:200]}' has "
                f"{member.size / 2**20:.0f} MiB, and {max(0, free_bytes) / 2**20:.0f} MiB are free"
            )
        source = tar.extractfile(member)
        assert source is not None  # it is a file
        with target.open("wb") as file:
            shutil.copyfileobj(source, file, CHUNK_BYTES)
    except OSError as error:
        if error.errno is None:  # of reading the archive, not of writing
            raise
        raise ArtifactError(f"{named} cannot be unpacked: {error}") from error
    return member.size


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
