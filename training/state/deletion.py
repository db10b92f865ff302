"""Delete folders so that no process sees an incomplete one: rename the folder, then delete its files."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid
from pathlib import Path

TRASH_PREFIX = ".trash-"
"""Prefix of the name of a folder that is being deleted. If the process is killed, the next prune deletes the rest."""


def discard(folder: Path, home: Path) -> Path:
    """Rename a folder and return its new path, for `delete`.

    The new path is in the same parent folder, which may be on a separate disk. Raises OSError. Raises ValueError for a
    link or a path that is not two levels below `home`, which must be a path without links.
    """
    if folder.is_symlink() or folder.parent.resolve().parent != home:
        raise ValueError(f"{folder} is not two levels below {home}")
    trash = folder.with_name(f"{TRASH_PREFIX}{uuid.uuid4().hex}")
    folder.rename(trash)
    record_of(folder).unlink(missing_ok=True)
    return trash


def record_of(path: Path) -> Path:
    """Return the path of the digest of a folder or file; see `training.state.digests`."""
    return path.with_name(f".{path.name}.sha256")


def delete(trash: Path) -> None:
    """Delete a discarded folder. Links in it are deleted; their targets are not. Raises OSError."""
    # Another prune may be deleting the same folder, so a missing file is not an error.
    shutil.rmtree(trash, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(trash)


def measure(folder: Path) -> tuple[int, float]:
    """Return the size of a folder's files in bytes and the time of the latest change in seconds since the epoch.

    Links are not followed. Files that disappear meanwhile, or cannot be read, do not count. Raises FileNotFoundError.
    """
    size_bytes, changed = 0, folder.lstat().st_mtime
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            try:
                status = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - faster over thousands of files
            except OSError:
                continue
            changed = max(changed, status.st_mtime)
            size_bytes += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return size_bytes, changed
