"""Open and read files that another process may have replaced by a pipe, a device, a link or a huge file.

A pipe would block its reader for ever, and a link to `/dev/zero` has no end. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from training.contract.sizes import size_text


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading. Raises OSError for anything else, including a link, without waiting."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link", str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, limit_bytes: int) -> bytes:
    """Return the content of a regular file. Raises OSError for anything else, and for more than `limit_bytes`."""
    with open_regular(path) as file:
        content = file.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise OSError(errno.EFBIG, f"it has more than {size_text(limit_bytes)}", str(path))
    return content
