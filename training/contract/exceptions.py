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
_EXCEPTION_IN_LOWER_CASE = re.compile(r"(?:[A-Za-z_]\w*\.)+\w+: .*")
_FRAME = re.compile(r'\s*(?:\| )?\s+File ".+", line \d+(?:, in (.+))?')
TRACEBACK = "Traceback (most recent call last):"
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
    return None


def repair_last_traceback(lines: Sequence[str]) -> list[str]:
    """Return the lines of a log with its last traceback repaired, if it was split.

    With unbuffered output, Python writes the frames, the marks below them, and the class, colon and message of the
    exception in separate calls. SageMaker's toolkit prints each chunk that it reads as lines of their own, without
    white space at the ends of the chunk. Here the frames are indented again, marks (`~^`) are dropped, and the class
    and the first line of the message are joined.
    """
    starts = [at + 1 for at, line in enumerate(lines) if line.strip().endswith(TRACEBACK)]
    start = starts[-1] if starts else len(lines)
    unindented = [at for at in range(start, len(lines)) if lines[at].strip() and not lines[at].startswith((" ", "\t"))]
    for at in unindented:
        exception = _exception_lines(lines, at)
        if exception:
            if at == unindented[0] and len(exception) == 1:
                return list(lines)
            frames = [_indented(line) for line in lines[start:at] if line.strip(" \t~^")]
            return [*lines[:start], *frames, _joined(exception), *lines[at + len(exception) :]]
    return list(lines)


def _exception_lines(lines: Sequence[str], at: int) -> Sequence[str]:
    """Return the lines with the class and the message of the exception that begins here; empty if none does."""
    line = lines[at].strip()
    match = _EXCEPTION.fullmatch(line)
    if not match or line == "File":  # The beginning of a split frame, and no class.
        return lines[at : at + 1] if _EXCEPTION_IN_LOWER_CASE.fullmatch(line) else ()
    if match[3] is not None:
        return lines[at : at + 1]
    if line.endswith(":"):
        return lines[at : at + 2]
    following = lines[at + 1 : at + 3]
    if not following or not following[0].startswith(":"):
        return lines[at : at + 1]  # An exception without a message.
    # The colon may be alone, with the message on a third line.
    return lines[at : at + 2] if following[0][1:].strip() else lines[at : at + 3]


def _joined(exception: Sequence[str]) -> str:
    message = "".join(exception[1:]).removeprefix(":").strip()
    name = exception[0].strip()
    return f"{name.removesuffix(':')}: {message}" if message else name


def _indented(line: str) -> str:
    if line.startswith((" ", "\t")):
        return line
    return f"  {line}" if line.startswith("File ") else f"    {line}"


def _frame_before(lines: Sequence[str], at: int) -> re.Match[str] | None:
    """Return the innermost frame of the traceback whose exception is at this line; None if there is no traceback."""
    for before in range(at - 1, max(-1, at - 1 - _LINES_OF_FRAME), -1):
        if match := _FRAME.fullmatch(lines[before].rstrip()):
            return match
        if lines[before].strip() and not lines[before].startswith((" ", "\t")):
            return None
    return None
