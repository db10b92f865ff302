"""Base of all errors, the errors of input, and what errors of the system and of databases mean. Pure.

`training/contract/errors.py` shows the whole tree.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence


class TrainfareError(Exception):
    """Base of all errors. The message is one sentence that a user can act on."""

    exit_code = 1


class InputError(TrainfareError):
    """The experiment, the data or the command line is wrong. The message states the field or file, value and rule."""

    exit_code = 2


class InputErrors(InputError):
    """Several independent errors in one input. `messages` are all of them; the message of the error is the first."""

    def __init__(self, messages: Sequence[str]):
        super().__init__(messages[0])
        self.messages = tuple(messages)


_RESUME = "free some space, for example with `trainfare jobs prune`, then run the same command again: it resumes"
_OWN = "check its owner and mode, or set {variable} to {place} of your own"
_HINTS = {
    errno.ENOSPC: _RESUME,
    errno.EDQUOT: _RESUME,
    errno.EROFS: "set {variable} to {place} that can be written to",
    errno.EACCES: _OWN,
    errno.EPERM: _OWN,
    errno.ENOTDIR: "a part of the path is a file: set {variable} to {place} elsewhere",
    errno.EMFILE: "raise the limit on open files with `ulimit -n`",
    errno.EIO: "the disk may be damaged: check it, and restore the file from a copy",
}
_DATABASE_HINTS = (
    (r"disk is full|No space left|could not extend file", _RESUME),
    (r"readonly database|unable to open|permission denied", "check the owner and mode of the file and of its folder"),
    (r"not a database", "it is damaged or belongs to another program: restore it from a copy, or set another path"),
    (r"disk I/O error|malformed", "the file or its disk may be damaged: restore it from a copy"),
)


def system_reason(
    error: Exception, *, variable: str = "TRAINFARE_HOME", place: str = "a folder", subject: str = ""
) -> str:
    """Return the reason of an error of the system and what to do, without a full stop.

    `variable` is the variable or option that sets another `place`. `subject` is the path, if it comes first.
    """
    # shutil.Error has no errno, only the texts of the errors of all files.
    numbered = re.search(r"\[Errno (\d+)\]", str(error))
    number = getattr(error, "errno", None) or (int(numbered[1]) if numbered else 0)
    reason = os.strerror(number).lower() if number else str(error)
    text = f"{subject}: {reason}" if subject else reason
    return f"{text}; {_HINTS[number].format(variable=variable, place=place)}" if number in _HINTS else text


def database_reason(reason: str, otherwise: str = "") -> str:
    """Return the message of a database with what to do about it, which is `otherwise` if the message is unknown."""
    hint = next((hint for pattern, hint in _DATABASE_HINTS if re.search(pattern, reason, re.IGNORECASE)), otherwise)
    return f"{reason.rstrip('.')}; {hint}" if hint else reason
