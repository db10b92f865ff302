"""Print lines for the commands. A closed terminal or pipe does not end a running command."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def print_line(text: str) -> None:
    """Print a line on standard output."""
    _write(text, sys.stdout)


def print_error(text: str) -> None:
    """Print a line on standard error."""
    _write(text, sys.stderr)


def _write(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except OSError:
        # Otherwise Python would write the buffer again at exit.
        with contextlib.suppress(OSError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
