"""The exception of which a Python program died, read from its output. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

IMPORT_ERRORS = frozenset({"ModuleNotFoundError", "ImportError", "SyntaxError", "IndentationError", "TabError"})
"""Exceptions of programs that cannot be read or imported."""
_WRAPPERS = frozenset(
    {"ChildFailedError", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException", "RemoteTraceback"}
)
"""Exceptions with which launchers report that another process failed. The cause is printed before or behind them."""
_PREFIX = re.compile(r"^(?:\[(?:default|rank)?\d+\]:|\[1,\w+:\d+(?:,[\w-]+)?\]<std(?:out|err)>:) ?")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_EXCEPTION = re.compile(r"((?:[A-Za-z_]\w*\.)*([A-Z]\w*))(?::(?: (.*))?)?")
_FRAME = re.compile(r'\s*(?:\| )?\s+File ".+", line \d+(?:, in (.+))?')
_LINES_OF_FRAME = 12
"""Lines from a frame to the exception: the source, possibly over several lines, its marks and suggestions."""
_LINES_AT_END = 80
"""Most lines after an exception of which a program died: the reports of launchers and of other processes."""


@dataclass(frozen=True, kw_only=True)
class LastException:
    """Exception that ended a program."""

    name: str
    """Class, without its module."""
    message: str
    """First line of the message."""
    is_at_import: bool
    """True if the program could not be read or imported."""

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


def last_exception(lines: Sequence[str]) -> LastException | None:
    """Return the exception at the end of a program's output; None if the output does not end with a traceback.

    A name that does not exist counts as an error of the import if a module used it outside any function.
    """
    plain = [_PREFIX.sub("", _ESCAPE.sub("", line.rpartition("\r")[2])) for line in lines]
    for at in range(len(plain) - 1, max(-1, len(plain) - 1 - _LINES_AT_END), -1):
        match = _EXCEPTION.fullmatch(plain[at].rstrip())
        frame = _frame_before(plain, at) if match and match[2] not in _WRAPPERS else None
        if match and frame:
            name, function = match[2], frame[1]
            is_at_import = name in IMPORT_ERRORS or (name == "NameError" and function == "<module>")
            return LastException(name=name, message=(match[3] or "").strip()[:500], is_at_import=is_at_import)
    return _from_pieces([line.strip() for line in plain[-_LINES_AT_END:] if line.strip()])


def _from_pieces(lines: Sequence[str]) -> LastException | None:
    """Return the exception at the end of a traceback if its last line was split over several lines, else None.

    Python writes the class, the colon and the message separately if its output is not buffered, and SageMaker's toolkit
    prints what it reads at once as a line.
    """
    if not any("File " in line or line.endswith("(most recent call last):") for line in lines):
        return None
    for at in range(len(lines) - 2, -1, -1):
        match = _EXCEPTION.fullmatch(lines[at])
        if match and match[3] is None and lines[at + 1].startswith(":"):
            message = lines[at + 1][1:].strip() or "".join(lines[at + 2 : at + 3])
            return LastException(
                name=match[2], message=message.rstrip('"')[:500], is_at_import=match[2] in IMPORT_ERRORS
            )
    return None


def _frame_before(lines: Sequence[str], at: int) -> re.Match[str] | None:
    """Return the innermost frame of the traceback whose exception is at this line; None if there is no traceback."""
    for before in range(at - 1, max(-1, at - 1 - _LINES_OF_FRAME), -1):
        if match := _FRAME.fullmatch(lines[before].rstrip()):
            return match
        if lines[before].strip() and not lines[before].startswith((" ", "\t")):
            return None
    return None
