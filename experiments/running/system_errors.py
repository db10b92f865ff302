"""Turn errors of the operating system and of databases into one sentence: what failed, where, and what to do."""

from __future__ import annotations

import errno
import os

_HINTS = {
    errno.ENOSPC: "free some space, then run the same command again: it resumes",
    errno.EDQUOT: "free some space, then run the same command again: it resumes",
    errno.EROFS: "set TRAINFARE_HOME and MLFLOW_TRACKING_URI to places that can be written to",
    errno.EACCES: "check the file's owner and mode, or set TRAINFARE_HOME to a folder of your own",
    errno.EPERM: "check the file's owner and mode, or set TRAINFARE_HOME to a folder of your own",
    errno.EMFILE: "raise the limit on open files with `ulimit -n`",
    errno.EIO: "the disk may be damaged: check it, and restore the file from a copy",
}
_DATABASES = {"sqlite3", "sqlalchemy", "alembic"}


def sentence(error: Exception) -> str | None:
    """Return the message for a user, or None if the error is a bug in trainfare."""
    if isinstance(error, OSError):
        return _system_sentence(error)
    if type(error).__module__.split(".")[0] in _DATABASES:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"a database cannot be used: {first}. Run the same command again: it resumes."
    return None


def _system_sentence(error: OSError) -> str:
    number = error.errno or 0
    reason = os.strerror(number).lower() if number else str(error)
    path = error.filename2 or error.filename
    text = f"{os.fsdecode(path)}: {reason}" if isinstance(path, (str, bytes, os.PathLike)) else reason
    return f"{text}; {_HINTS[number]}." if number in _HINTS else f"{text}."
