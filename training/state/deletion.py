"""Delete folders so that no process sees a part of one: a folder is renamed first, and its files are deleted
afterwards."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from pathlib import Path

TRASH = ".trash-"
"""Prefix of the name of a folder that is being deleted. After a kill, the next prune deletes the rest."""


def discard(folder: Path, home: Path) -> Path:
    """Rename a folder and return its new path, for `delete`.

    The new path is in the same parent folder, which may be a disk of its own. Raises OSError. Raises ValueError for a
    link, or for anything but a folder in one of the folders of `home`, which must be a path without links.
    """
    if folder.is_symlink() or folder.parent.resolve().parent != home:
        raise ValueError(f"{folder} is not within {home}")
    trash = folder.with_name(f"{TRASH}{uuid.uuid4().hex}")
    folder.rename(trash)
    return trash


def delete(trash: Path) -> None:
    """Delete a discarded folder. Links in it are deleted, but not their targets. Raises OSError."""
    # Another prune may be deleting the same folder: a file that it has deleted is no error.
    shutil.rmtree(trash, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(trash)
