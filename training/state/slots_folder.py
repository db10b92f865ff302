"""Folder with the locks of this machine's cores and GPUs, which the jobs of all state folders share."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from training.contract.errors import InputError

VARIABLE = "TRAINFARE_SLOTS"


def slots_folder() -> Path:
    """Return the folder, and create it if only this user has access to it.

    It is `TRAINFARE_SLOTS`, which several users can share, or else a folder of this user, in `XDG_RUNTIME_DIR` or in
    `~/.cache`. Raises InputError if another user could replace its files.
    """
    if path := os.environ.get(VARIABLE):
        folder, name = Path(path).expanduser().absolute(), f"{VARIABLE} {path}"
    elif (path := os.environ.get("XDG_RUNTIME_DIR")) and Path(path).is_dir():
        folder, name = Path(path) / "trainfare-slots", f"{path}/trainfare-slots (in XDG_RUNTIME_DIR)"
    else:
        folder = Path.home() / ".cache" / "trainfare" / "slots"
        name = str(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unsafe = _reason_against(folder.lstat())
    except OSError as error:
        raise InputError(f"{name} cannot be used for the locks of cores and GPUs: {error.strerror}.") from error
    if unsafe:
        raise InputError(f"{name} is not safe for the locks of cores and GPUs: {unsafe}.")
    return folder


def _reason_against(status: os.stat_result) -> str | None:
    """Return why a folder is not safe, or None: other users must not be able to replace its files."""
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if status.st_uid not in (0, os.getuid()):
        return f"it belongs to another user ({status.st_uid})"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX:
        return "other users may write to it and it is not sticky: use `chmod +t`"
    return None
