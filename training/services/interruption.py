"""Handle Ctrl-C and SIGTERM while jobs run: ask the user, stop the jobs, and let the launcher record their outcomes.

The handler only starts the shutdown and returns, so that it never interrupts a write.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

from training.contract.errors import TrainfareError
from training.contract.plain_text import without_control_characters


class Detached(BaseException):
    """The user detached. The jobs keep running, and the same command attaches to them again."""


class Interrupts:
    """Context manager with signal handlers: SIGINT asks the user what to do, SIGTERM stops the jobs, SIGUSR1 none.

    Once `stopping` is true, no more jobs may be started. SIGUSR1 lets the running ones end, for a command with a time
    limit: Slurm sends it with `--signal=B:USR1@SECONDS`.
    """

    def __init__(self, stop_jobs: Callable[[], None], *, leaves_at_sigterm: bool = False) -> None:
        """Set `leaves_at_sigterm` if SIGTERM ends only this command, as when its own allocation of a cluster ends."""
        self._stop_jobs, self._leaves_at_sigterm = stop_jobs, leaves_at_sigterm
        self.stopping = False
        self.stops_jobs = False

    def __enter__(self) -> Interrupts:
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
        self._before = {number: signal.signal(number, self._handle) for number in numbers}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            if not self.stopping:
                self.stopping = True
                _echo("Starting no more jobs. The command ends with the running ones.")
            return
        if self.stops_jobs and number == signal.SIGINT:
            raise Detached  # second Ctrl-C: the jobs are stopping; the next run of the command records their outcomes
        if number == signal.SIGTERM and self._leaves_at_sigterm:
            raise Detached
        answer = _ask_at_terminal() if number == signal.SIGINT and not self.stops_jobs else "stop"
        if answer == "leave":
            raise Detached
        if answer == "stop" and not self.stops_jobs:
            self.stopping = self.stops_jobs = True
            _echo("Stopping. Each job has 120 s to end. Press Ctrl-C again to leave without waiting.")
            # In a thread, because the interrupted code may hold a lock that stopping the jobs needs.
            threading.Thread(target=self._stop, name="stop-jobs").start()

    def _stop(self) -> None:
        try:
            self._stop_jobs()
        except TrainfareError as error:
            _echo(f"error: {error}")


def _ask_at_terminal() -> str:
    # `mlflow run` ends its child process as soon as Ctrl-C is pressed, so there is no time for a question.
    if not sys.stdin.isatty() or "MLFLOW_RUN_ID" in os.environ:
        return "stop"
    try:
        _echo("\nStop the running jobs (s), leave them running and exit (l), or keep following them (Enter)? ")
        answer = sys.stdin.readline().strip().lower()
    except (OSError, ValueError, RuntimeError):
        return "stop"
    return {"s": "stop", "stop": "stop", "l": "leave", "leave": "leave"}.get(answer, "follow")


def _echo(text: str) -> None:
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # the progress of the group may be on the terminal's line
    print(f"{clear}{without_control_characters(text)}", file=sys.stderr, flush=True)
