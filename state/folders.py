"""Folders and databases of the state that no process sees incomplete or damaged.

They are made under a temporary name and then renamed. Deletion renames a folder first. The digest of a folder or file
that jobs share is recorded when it is made, and compared before it is used: the record of `<parent>/<name>` is the file
`<parent>/.<name>.sha256`. What has no record is used as it is.
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

from state.errors import InputError, system_reason
from state.locks import held_lock
from state.permissions import file_mode
from state.regular_files import open_regular

UNFINISHED_PREFIX = ".unfinished-"
TRASH_PREFIX = ".trash-"
"""Prefix of the name of a folder that is being deleted. If the process is killed, the next prune deletes the rest."""
_whole: dict[Path, object] = {}
"""State of the files of each path when this process last compared its digest: size, inode and time of each."""


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


def is_usable(path: Path, echo: Callable[[str], None] = lambda _: None) -> bool:
    """Return whether a folder or file exists and is not damaged. A damaged one is deleted, and `echo` reports it."""
    if not path.exists():
        return False
    if not is_damaged(path):
        return True
    echo(f"{path} is damaged: it differs from its digest. It is made again.")
    remove(path)
    return False


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
    if not recorded.is_file() or digest(path) != recorded.read_text("ascii", "replace").strip():
        return True
    _whole[path] = files
    return False


def damage(path: Path) -> str | None:
    """Return a phrase if a path is in a folder, or is a file, that is missing or damaged, or else None.

    Raises OSError if it cannot be read.
    """
    for each in (path, *path.parents):
        if each.name and os.path.lexists(record_of(each)):
            return f"{each} is damaged: it differs from its digest" if not each.exists() or is_damaged(each) else None
    return None


def record(path: Path) -> None:
    """Write the digest of a folder or file, which is complete and will not change. Raises OSError."""
    temporary = path.with_name(f".{path.name}.sha256-{uuid.uuid4().hex}")
    try:
        temporary.write_text(f"{digest(path)}\n", "ascii")
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


def record_of(path: Path) -> Path:
    """Return the path of the digest of a folder or file."""
    return path.with_name(f".{path.name}.sha256")


def remove(path: Path) -> None:
    """Take away a folder, a file or a link, in one step. Raises OSError."""
    trash = path.with_name(f"{TRASH_PREFIX}{uuid.uuid4().hex}")
    with contextlib.suppress(FileNotFoundError):  # another process was faster
        path.rename(trash)
        if trash.is_dir() and not trash.is_symlink():
            shutil.rmtree(trash, ignore_errors=True)
        else:
            trash.unlink()


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


def lock_database(path: Path) -> contextlib.AbstractContextManager[None]:
    """Wait until no other process creates this database, and keep others from it meanwhile.

    Raises OSError if the folder does not exist or cannot be written to.
    """
    return held_lock(path.with_name(f".{path.name}.lock"), mode=file_mode())


def database_exists(path: Path) -> bool:
    """Return whether something is at the path, apart from the empty file that SQLite leaves before its first table."""
    return path.exists() and (not path.is_file() or path.stat().st_size > 0)


def create_database(path: Path, make: Callable[[Path], None]) -> None:
    """Let `make` create the database at a temporary path, and rename it to `path`. The caller holds the lock.

    The database is private, unless TRAINFARE_UMASK has another mask. Raises InputError if that is not a mask.
    """
    for left in path.parent.glob(f".{path.name}.new-*"):  # of a process that was killed
        left.unlink()
    new = path.with_name(f".{path.name}.new-{uuid.uuid4().hex}")
    try:
        # SQLite keeps the mode of an empty file, and would create a file that all users may read.
        new.touch()
        new.chmod(file_mode())
        make(new)
        new.replace(path)
    finally:
        for file in path.parent.glob(f"{new.name}*"):  # with journals
            file.unlink(missing_ok=True)
