"""Permissions of files: new files are private by default, and others must not be able to replace executed ones."""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
from pathlib import Path

from state.errors import InputError

VARIABLE = "TRAINFARE_UMASK"
"""Variable with the mask, in octal."""
PRIVATE = "077"


def set_umask() -> None:
    """Set this process's mask: files are private, unless TRAINFARE_UMASK has another mask, such as 007 for a group.

    Raises `InputError`.
    """
    os.umask(_mask())


def file_mode() -> int:
    """Return the mode of a new file, for files that a library creates with a mode of its own. Raises `InputError`."""
    return 0o666 & ~_mask()


def private_mode(mode: int) -> int:
    """Return the mode of a copy of a file: its owner can read and write it, and others have no more than new files.

    Raises `InputError`.
    """
    return (stat.S_IMODE(mode) | stat.S_IRUSR | stat.S_IWUSR) & ~_mask()


def _mask() -> int:
    mask = os.environ.get(VARIABLE, PRIVATE)
    if not re.fullmatch("0?[0-7]{3}", mask):
        raise InputError(f"{VARIABLE} is '{mask}'; it must be three octal digits, such as 077 or 007.")
    return int(mask, 8)


def reason_against(folder: Path, *, own_group: bool = True) -> str | None:
    """Return why a folder is not safe, or None: other users must be able to replace neither its files nor the folder.

    A part of the path that does not exist counts as safe. Other users may write to a sticky folder, such as `/tmp`,
    because they cannot replace what belongs to you in it. With `own_group`, the group may write to the folder if it has
    no other members or if you share your files with it.
    """
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return _reason_against_path(folder)
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    return _reason(status, own_group) or _reason_against_path(folder)


def _reason_against_path(folder: Path) -> str | None:
    """Return why other users could replace a folder: through one of its parents, or a link on its path."""
    path = folder.absolute()
    for part in (*reversed(path.parents), *reversed(path.resolve().parents)):
        try:
            status = part.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        reason = _owner_reason(status) if stat.S_ISLNK(status.st_mode) else _reason(status, own_group=True)
        if reason:
            return f"it is in {part}, and {reason.replace('it ', 'that folder ', 1)}"
    return None


def _reason(status: os.stat_result, own_group: bool) -> str | None:
    if reason := _owner_reason(status):
        return reason
    if status.st_mode & stat.S_ISVTX:
        return None
    shares_with_group = not _mask() & stat.S_IWGRP
    trusted = own_group and (shares_with_group or _is_own_group(status.st_gid))
    if status.st_mode & (stat.S_IWOTH | (0 if trusted else stat.S_IWGRP)):
        return "other users may write to it and it is not sticky: use `chmod +t`, or `chmod go-w`"
    return None


def _owner_reason(status: os.stat_result) -> str | None:
    return f"it belongs to another user ({status.st_uid})" if status.st_uid not in (0, os.getuid()) else None


def _is_own_group(number: int) -> bool:
    """Return whether a group is this user's own: it has the user's name, and no other members."""
    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(number)
    except KeyError:  # a user or group without a name
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
