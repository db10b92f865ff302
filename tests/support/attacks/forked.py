"""Commands in forked processes: they start in milliseconds, because this process has imported their packages."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

_POLL_SECONDS = 0.01


def start(work: Callable[[], object], output: Path) -> int:
    """Run `work` in a process and a session of its own, and return its process id.

    What it prints is appended to the file `output`. Its exit code is the number that `work` returns, or 1 after an
    exception, whose traceback is printed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        return pid
    code = 1
    try:
        os.setsid()
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, target in ((nothing, 0), (descriptor, 1), (descriptor, 2)):
            os.dup2(number, target)
        # Not this process's streams, which a test may have replaced.
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        code = int(work() or 0)  # type: ignore[call-overload]
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(pid: int, limit_seconds: float) -> int | None:
    """Return the exit code of a process that `start` started, or None if it ran longer and was killed."""
    deadline = time.monotonic() + limit_seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_POLL_SECONDS)
    kill(pid)
    return None


def kill(pid: int) -> None:
    """Kill a process that `start` started, and wait for its end."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
