"""Read the file with a server's token, which other users must not be able to read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from training.contract.errors import InputError
from training.state.regular_files import open_regular

MAX_BYTES = 4096


def read_token(path: Path) -> str:
    """Return the token. Raises InputError if the file cannot be read, or if other users can read or replace it."""
    try:
        with open_regular(path, follow_links=True) as file:
            unsafe = _reason_against(os.fstat(file.fileno()))
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"the token file {path} cannot be read: {(error.strerror or str(error)).lower()}.") from error
    if unsafe:
        raise InputError(f"the token file {path} is not safe: {unsafe}.")
    if len(content) > MAX_BYTES:
        raise InputError(f"the token file {path} has more than {MAX_BYTES} bytes: it must contain only the token.")
    return content.decode("utf-8", "replace").strip()


def _reason_against(status: os.stat_result) -> str | None:
    """Return why a file is not safe, or None. A group may read it, because it can share an endpoint."""
    if status.st_uid not in (0, os.getuid()):
        return f"it belongs to another user ({status.st_uid})"
    if status.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
        return f"its mode is {stat.S_IMODE(status.st_mode):04o}, so other users can use it: run `chmod 600` on it"
    return None
