"""Print lines for the commands, without the control characters of jobs, servers and other members.

A closed terminal or pipe does not end a running command.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable
from typing import TextIO

from training.contract.plain_text import without_control_characters

_CLEAR = "\r\x1b[K"
"""Returns to the start of a terminal's line and clears it."""
_status = ""
"""Status line that the terminal shows now."""


def print_line(text: str) -> None:
    """Print a line on standard output, above the status line."""
    text = without_control_characters(text)
    _write(f"{_CLEAR}{text}" if _status else text, sys.stdout)
    if _status:
        _write(_status, sys.stdout, end="")


def status_writer() -> Callable[[str], None] | None:
    """Return the function that shows a status line on the terminal, or None if standard output is none.

    The line is cut to the terminal's width. An empty text removes it.
    """
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return None
    return _show_status


def _show_status(text: str) -> None:
    global _status
    text, width = without_control_characters(text), shutil.get_terminal_size().columns - 1
    status = text if len(text) <= width else f"{text[: max(0, width - 1)]}…"
    if status == _status:
        return
    _status = status
    _write(f"{_CLEAR}{status}", sys.stdout, end="")


def has_terminal() -> bool:
    """Return whether a person can read a question and answer it."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())


def confirm(question: str) -> bool:
    """Ask at the terminal, and return whether the answer is yes."""
    answer = ""
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        answer = input(f"{question} [y/N] ")
    return answer.strip().lower() in {"y", "yes"}


def print_error(text: str) -> None:
    """Print a line on standard error."""
    _write(without_control_characters(text), sys.stderr)


def _write(text: str, stream: TextIO, end: str = "\n") -> None:
    try:
        print(text, file=stream, flush=True, end=end)
    except OSError:
        # Otherwise Python would write the buffer again at exit.
        with contextlib.suppress(OSError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
