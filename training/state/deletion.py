"""Delete folders so that no process sees an incomplete one: rename the folder, then delete its files."""

from __future__ import annotations

import contextlib
import shutil
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
