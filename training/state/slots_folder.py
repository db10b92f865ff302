"""Folder with the locks of this machine's cores and GPUs, which the jobs of all state folders share."""

from __future__ import annotations

import os
from pathlib import Path

from training.contract.errors import InputError
from training.state.regular_files import user_path
from training.state.safe_folder import reason_against_path, reason_against_status
from training.state.system_errors import system_reason

VARIABLE = "TRAINFARE_SLOTS"


def slots_folder(*, create: bool = True) -> Path:
    """Return the folder, and create it for this user only unless `create` is false.

    It is `TRAINFARE_SLOTS`, which several users can share, or else a folder of this user, in `XDG_RUNTIME_DIR` or in
    `~/.cache`. Raises InputError if another user could replace its files.
    """
    if path := os.environ.get(VARIABLE):
        folder, name = user_path(path, VARIABLE).absolute(), f"{VARIABLE} {path}"
    elif (path := os.environ.get("XDG_RUNTIME_DIR")) and Path(path).is_dir():
        folder, name = Path(path) / "trainfare-slots", f"{path}/trainfare-slots (in XDG_RUNTIME_DIR)"
    else:
        folder = Path.home() / ".cache" / "trainfare" / "slots"
        name = str(folder)
    try:
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unsafe = reason_against_status(folder, own_group=False) or reason_against_path(folder)
    except OSError as error:
        reason = system_reason(error, variable=VARIABLE)
        raise InputError(f"{name} cannot be used for the locks of cores and GPUs: {reason}.") from error
    if unsafe:
        raise InputError(f"{name} is not safe for the locks of cores and GPUs: {unsafe}.")
    return folder
