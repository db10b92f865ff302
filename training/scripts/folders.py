"""Files of a script's folder: which belong to it, whether they can be copied, and their digest."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from training.contract.errors import InputError

IGNORED_PATTERNS = (".*", "__pycache__", "mlruns", "mlartifacts", "mlflow.db*")
"""Patterns of files that are never part of a script: hidden files, which may be secrets, and MLflow's files."""


def is_ignored(name: str) -> bool:
    """Return whether a file or folder of this name is never part of a script."""
    return any(fnmatch(name, pattern) for pattern in IGNORED_PATTERNS)


def files_of(folder: Path, *, all_files: bool) -> Iterator[Path]:
    """Yield the files under a folder in a fixed order, following links. Skip ignored files unless `all_files`."""
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if all_files or not is_ignored(name))
        yield from (Path(parent) / name for name in sorted(names) if all_files or not is_ignored(name))


def check_folder(field: str, folder: Path, root: Path, *, all_files: bool) -> None:
    """Raise InputError for a link out of `root`, a link to a folder that contains it, or a file that is not regular.

    Such a file would copy another user's secrets, never end, or block. `field` names the folder in the message. The
    folder is `root` or within it.
    """
    outermost, pending = root.resolve(), [folder]
    while pending:
        parent = pending.pop()
        for entry in sorted(os.scandir(parent), key=lambda entry: entry.name):
            if not all_files and is_ignored(entry.name):
                continue
            path = Path(entry.path)
            _check_entry(field, path, outermost)
            if entry.is_dir():
                pending.append(path)


def _check_entry(field: str, path: Path, outermost: Path) -> None:
    try:
        target = path.resolve(strict=True)
        mode = path.stat().st_mode
    except OSError as error:
        raise InputError(f"{field}: {path} cannot be read: {error.strerror or error}") from error
    except RuntimeError as error:  # Python 3.11 and 3.12 report a loop of links in this way
        raise InputError(f"{field}: {path} is a link that leads to itself") from error
    if path.is_symlink():
        if not target.is_relative_to(outermost):
            raise InputError(
                f"{field}: {path} is a link to {target}, which is outside {outermost}: replace it by a copy"
            )
        if path.parent.resolve().is_relative_to(target):
            raise InputError(f"{field}: {path} is a link to a folder that contains it: remove it")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise InputError(f"{field}: {path} is a device, a pipe or a socket: only files and folders can be used")


def digest_folder(folder: Path, *, all_files: bool) -> str:
    """Return the SHA-256 of the names and contents of a folder's files. Raises InputError if one cannot be read."""
    digest = hashlib.sha256()
    for path in files_of(folder, all_files=all_files):
        try:
            with path.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").digest()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
        digest.update(os.fsencode(path.relative_to(folder)) + b"\0" + content)
    return digest.hexdigest()
