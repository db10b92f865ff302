"""Delete a folder so that nobody ever sees a part of it: it loses its name first, and its files after that."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from pathlib import Path

TRASH = ".trash-"
"""How the name of a folder begins that is being deleted; what is killed meanwhile leaves it to the next prune."""


def discard(folder: Path, home: Path) -> Path:
    """Take a folder's name away and return where it is until `delete` is through with it.

    Beside where it was, for a place may be on a disk of its own. Raises OSError; ValueError for what is a link or no
    folder of a place of `home`, a path without links.
    """
    if folder.is_symlink() or folder.parent.resolve().parent != home:
        raise ValueError(f"{folder} is not within {home}")
    trash = folder.with_name(f"{TRASH}{uuid.uuid4().hex}")
    folder.rename(trash)
    return trash


def delete(trash: Path) -> None:
    """Delete a discarded folder; links in it go, what they lead to stays. Raises OSError."""
    # Another prune may be at the same one: what that has deleted already is no error.
    shutil.rmtree(trash, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(trash)
