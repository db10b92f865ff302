"""Digests of folders and files that jobs share: recorded when they are made, and compared before they are used.

The record of `<parent>/<name>` is the file `<parent>/.<name>.sha256`. State of earlier versions has no records and is
used as it is. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from training.contract.errors import InputError
from training.state.deletion import TRASH_PREFIX, record_of
from training.state.regular_files import open_regular, read_regular
from training.state.system_errors import system_reason

UNFINISHED_PREFIX = ".unfinished-"
_MAX_RECORD_BYTES = 1024

_whole: dict[Path, object] = {}
"""State of the files of each path when this process last compared its digest: size, inode and time of each."""


def record(path: Path) -> None:
    """Write the digest of a folder or file, which is complete and will not change. Raises OSError."""
    temporary = path.with_name(f".{path.name}.sha256-{uuid.uuid4().hex}")
    try:
        temporary.write_text(f"{digest(path)}\n", "ascii")
        if record_of(path).is_dir() and not record_of(path).is_symlink():
            shutil.rmtree(record_of(path))  # a file cannot replace a folder
        temporary.replace(record_of(path))
    finally:
        temporary.unlink(missing_ok=True)


def digest(path: Path) -> str:
    """Return the SHA-256 of the names, types and contents of a folder's files, or of one file. Links are not followed.

    Raises OSError.
    """
    total = hashlib.sha256()
    for each, status in _files(path):
        if stat.S_ISREG(status.st_mode):
            with open_regular(each) as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()
        else:
            content = str(each.readlink()) if stat.S_ISLNK(status.st_mode) else "another type"
        total.update(f"{stat.S_IFMT(status.st_mode)} {content} ".encode() + os.fsencode(each.relative_to(path)) + b"\0")
    return total.hexdigest()


def _files(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files under a folder, or the one file, in a fixed order."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        yield path, status
        return
    for parent, folders, names in os.walk(path, onerror=_raise):
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        folders.sort()
        for name in sorted((*names, *links)):
            yield Path(parent) / name, (Path(parent) / name).lstat()


def _raise(error: OSError) -> None:
    raise error


def is_damaged(path: Path) -> bool:
    """Return whether a folder or file has a record, and differs from it. Raises OSError if it cannot be read.

    While a process runs, it reads files again only if their size, inode or time has changed.
    """
    recorded = record_of(path)
    if not os.path.lexists(recorded):
        return False
    files = [(each, status.st_size, status.st_ino, status.st_mtime_ns) for each, status in _files(path)]
    if _whole.get(path) == files:
        return False
    try:
        expected = read_regular(recorded, _MAX_RECORD_BYTES).decode("ascii").strip()
    except (OSError, ValueError):
        expected = ""
    if digest(path) != expected:
        return True
    _whole[path] = files
    return False


def is_usable(path: Path, echo: Callable[[str], None] = lambda _: None) -> bool:
    """Return whether a folder or file exists and is not damaged. A damaged one is deleted, and `echo` reports it."""
    if not path.exists():
        return False
    if not is_damaged(path):
        return True
    echo(f"{path} is damaged: it differs from its digest. It is made again.")
    remove(path)
    return False


def remove(path: Path) -> None:
    """Take away a folder, a file or a link, in one step. Raises OSError."""
    trash = path.with_name(f"{TRASH_PREFIX}{uuid.uuid4().hex}")
    with contextlib.suppress(FileNotFoundError):  # another process was faster
        path.rename(trash)
        if trash.is_dir() and not trash.is_symlink():
            shutil.rmtree(trash, ignore_errors=True)
        else:
            trash.unlink()


def damage(path: Path) -> str | None:
    """Return a phrase if a path is in a folder, or is a file, that is missing or damaged, or else None.

    Raises OSError if it cannot be read.
    """
    for each in (path, *path.parents):
        if each.name and os.path.lexists(record_of(each)):
            return f"{each} is damaged: it differs from its digest" if not each.exists() or is_damaged(each) else None
    return None


@contextlib.contextmanager
def new_folder(folder: Path, is_complete: Callable[[Path], bool] = Path.is_dir) -> Iterator[Path]:
    """Yield an empty temporary folder. At the end, it is renamed to `folder` and its digest is recorded.

    If another process has made `folder` meanwhile, and it `is_complete`, that one stays. After an error, nothing stays.
    Raises InputError if it cannot be written.
    """
    unfinished = folder.parent / f"{UNFINISHED_PREFIX}{uuid.uuid4().hex}"
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        _place(unfinished, folder, is_complete)
    except (OSError, shutil.Error) as error:
        raise InputError(f"{folder} cannot be written: {system_reason(error)}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _place(unfinished: Path, folder: Path, is_complete: Callable[[Path], bool]) -> None:
    while not is_complete(folder):
        if os.path.lexists(folder):
            remove(folder)
        try:
            unfinished.rename(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another process has just made it
                raise
        else:
            record(folder)
            return
