"""Measure the time and memory of short attempts in this process, and end those that take too long."""

from __future__ import annotations

import faulthandler
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""Text that makes Linux forget the peak of this process's memory."""
HANG_FACTOR, MIN_HANG_SECONDS = 6, 30.0
"""A library that exceeds this multiple of the limit, and this time, ends the process with a traceback."""


class TooSlow(BaseException):
    """An attempt that took too long. No handler of ordinary errors catches it."""


@dataclass
class Used:
    """Time and memory of an attempt."""

    seconds: float = 0.0
    megabytes: float = 0.0
    """Peak of the resident memory during the attempt, above that at its start."""


@contextmanager
def bounded(limit_seconds: float) -> Iterator[Used]:
    """Yield an object that holds the attempt's time and memory at its end. Raises `TooSlow`. Needs the main thread."""
    used = Used()
    handler = signal.signal(signal.SIGALRM, _too_slow)
    left_seconds, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.dump_traceback_later(max(HANG_FACTOR * limit_seconds, MIN_HANG_SECONDS), exit=True)
    CLEAR.write_text(RESET_PEAK)
    before, started = _peak_kb(), time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_seconds)
        yield used
    finally:
        used.seconds = time.monotonic() - started
        used.megabytes = (_peak_kb() - before) * 1024 / 1e6
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, handler)
        # An outer timer, such as that of a test, continues with a whole second at least.
        signal.setitimer(signal.ITIMER_REAL, max(1.0, left_seconds - used.seconds) if left_seconds else 0)


def _too_slow(signal_number: int, frame: FrameType | None) -> None:
    raise TooSlow


def _peak_kb() -> int:
    _, _, after = STATUS.read_bytes().partition(b"VmHWM:")
    return int(after.split(maxsplit=1)[0])
