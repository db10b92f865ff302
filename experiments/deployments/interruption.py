"""Cleanup of a command that is interrupted by Ctrl-C, SIGTERM or a closed terminal."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from training.contract.errors import TrainfareError


class Interrupted(TrainfareError):
    """The command was interrupted by a signal."""

    exit_code = 130


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt in the body on a signal, which undoes partial work, and Interrupted after it."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    except KeyboardInterrupt as end:
        notes = getattr(end, "__notes__", ())
        interrupted = Interrupted("interrupted." if notes else "interrupted; everything was undone.")
        for note in notes:
            interrupted.add_note(note)
        raise interrupted from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
