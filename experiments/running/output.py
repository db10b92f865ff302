"""Lines for a person, who may have gone: a closed terminal or the end of a pipe ends nothing that is under way."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def say(text: str) -> None:
    """Print a line on standard output."""
    _print(text, sys.stdout)


def remark(text: str) -> None:
    """Print a line on standard error."""
    _print(text, sys.stderr)


def _print(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except OSError:
        # What is in the buffer would be tried again at the end.
        with contextlib.suppress(OSError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
