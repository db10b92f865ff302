"""Unpack a job's model artifact from a stream, without loading it into memory.

Any script may have written the archive, so it is treated as untrusted: no file is written outside the folder.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from training.contract.errors import ArtifactError, first_line


def unpack(
    archive: BinaryIO, folder: Path, *, archive_name: str, is_selected: Callable[[PurePosixPath], bool] = lambda _: True
) -> int:
    """Write the files of a `tar.gz` to `folder` as they are read, and return their total size in bytes.

    `archive_name` is for messages; `is_selected` selects the files to write. Raises ArtifactError if the archive is
    broken, does not fit on the disk, contains anything except files and folders, or has a path outside the folder.
    """
    written = 0
    try:
        with tarfile.open(fileobj=archive, mode="r|*", bufsize=2**20) as tar:
            for member in tar:
                path = PurePosixPath(member.name)
                is_file_or_folder = member.isfile() or member.isdir()
                if not is_file_or_folder or path.is_absolute() or ".." in path.parts:
                    problem = "is outside its folder" if is_file_or_folder else "is neither a file nor a folder"
                    raise ArtifactError(f"{archive_name} contains '{member.name[:200]}', which {problem}")
                if member.isfile() and is_selected(path):
                    tar.extract(member, folder, set_attrs=False, filter="data")
                    written += member.size
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise ArtifactError(f"{archive_name} is not a complete tar archive: {first_line(error)}") from error
    except OSError as error:
        raise ArtifactError(f"{archive_name} cannot be unpacked: {error}") from error
    return written
