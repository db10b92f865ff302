"""Open the files that users name, and those that another process may have replaced by a pipe, a device or a link.

A pipe would block its reader for ever, and `/dev/zero` has no end. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from state.errors import InputError


def user_path(text: str, name: str) -> Path:
    """Return the path that a user wrote, with `~` replaced. `name` is its field. Raises InputError."""
    try:
        return Path(text).expanduser()
    except (RuntimeError, ValueError) as error:  # ValueError: the user's name contains a NUL byte
        user = Path(text).parts[0]
        raise InputError(
            f"{name} is {text!r}, but no home folder is known for {user!r}: write the whole path."
        ) from error


def open_regular(path: Path, *, follow_links: bool = False) -> BufferedReader:
    """Open a regular file for reading. Raises OSError for anything else, without waiting.

    Links are followed only in what a user names.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow_links:
            raise OSError(errno.ELOOP, "it is a link", str(path)) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, limit_bytes: int, *, follow_links: bool = False) -> bytes:
    """Return the content of a regular file. Raises OSError for anything else, and for more than `limit_bytes`."""
    with open_regular(path, follow_links=follow_links) as file:
        content = file.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise OSError(errno.EFBIG, f"it has more than {limit_bytes:,} bytes", str(path))
    return content
