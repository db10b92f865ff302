"""Ends of a command that it cleans up after: Ctrl-C, SIGTERM and a closed terminal."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from training.contract.errors import TrainfareError


class Interrupted(TrainfareError):
    """A person, or the system, ended the command."""

    exit_code = 130


@contextmanager
def interruptible() -> Iterator[None]:
    """Let each of the signals raise here, so that what was begun is undone, and tell it in one sentence."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    except KeyboardInterrupt as end:
        left = getattr(end, "__notes__", ())
        told = Interrupted("interrupted." if left else "interrupted; nothing of what was begun is left.")
        for note in left:
            told.add_note(note)
        raise told from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
