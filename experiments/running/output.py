"""Output of the commands: lines, questions, sentences about errors, and exit codes.

Lines have no control characters of jobs, servers and other members. A closed terminal or pipe does not end a running
command.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from training.contract.plain_text import without_control_characters

if TYPE_CHECKING:
    from reports.model.report import Report
from state.errors import database_reason, system_reason

_CLEAR = "\r\x1b[K"
"""Returns to the start of a terminal's line and clears it."""
_status = ""
"""Status line that the terminal shows now."""
UNWANTED_RESULT = 3
"""Exit code if a result occurred that `--fail-on` names."""
PROGRESS_VARIABLE = "TRAINFARE_PROGRESS"
"""Variable with which `src/trainfare.py` asks for all text, and for each status as a line that begins with `\\r`."""
_answer: Mapping[str, Any] = {}
_answer_stream: TextIO | None = None
"""Where the answer is to be written as JSON; None if it is not, or was written."""


@contextlib.contextmanager
def json_answer() -> Iterator[None]:
    """Write only the answer to standard output, as one JSON document, and all lines to standard error."""
    global _answer, _answer_stream
    _answer, _answer_stream = {}, sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield
    write_answer()


def answer(document: Mapping[str, Any]) -> None:
    """Set the answer of the command, which `docs/output.schema.json` describes. It is written at the command's end."""
    global _answer
    _answer = document


def write_answer() -> None:
    """Write the answer now, if it is wanted as JSON."""
    global _answer_stream
    if _answer_stream:
        _write(json.dumps(_answer, indent=1, ensure_ascii=False), _answer_stream)
        _answer_stream = None


def shows_text() -> bool:
    """Return whether a person reads what is printed: always, unless only a program reads the answer as JSON."""
    return _answer_stream is None or PROGRESS_VARIABLE in os.environ


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
    if PROGRESS_VARIABLE in os.environ:
        return lambda text: _write(f"\r{without_control_characters(text)}", sys.stdout)
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


def print_error(text: str) -> None:
    _write(without_control_characters(text), sys.stderr)


def _write(text: str, stream: TextIO, end: str = "\n") -> None:
    try:
        print(text, file=stream, flush=True, end=end)
    except OSError:
        # Otherwise Python would write the buffer again at exit.
        with contextlib.suppress(OSError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def has_terminal() -> bool:
    """Return whether a person can read a question and answer it."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())


def confirm(question: str) -> bool:
    answer = ""
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        answer = input(f"{question} [y/N] ")
    return answer.strip().lower() in {"y", "yes"}


def exit_code(report: Report, fail_on: frozenset[str]) -> int:
    """Print the results that occurred and that `fail_on` names to standard error. Return 3 if there are any, else 0."""
    from reports.comparison.report import fail_sentences

    sentences = list(fail_sentences(report.results, fail_on))
    for sentence in sentences:
        print_error(sentence)
    return UNWANTED_RESULT if sentences else 0


def sentence(error: Exception) -> str | None:
    """Return the message for a user, or None if the error is a bug in trainfare."""
    if isinstance(error, OSError):
        path = error.filename2 or error.filename
        subject = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
        return f"{system_reason(error, subject=subject)}."
    if type(error).__module__.split(".")[0] not in {"sqlite3", "sqlalchemy", "alembic"}:
        return None
    from tracking.server.store import database_name
    from training.contract.plain_text import without_secrets

    first = without_secrets((str(error).strip().splitlines() or [type(error).__name__])[0])
    reason = database_reason(first, otherwise="run the same command again: it resumes")
    return f"a database cannot be used (the tracking database is {database_name()}): {reason}."
