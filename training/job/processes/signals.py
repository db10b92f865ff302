"""Handle SIGTERM: a job that keeps checkpoints finishes its step and saves, any other ends at once.

A separate thread waits for the signal, because the main thread may be waiting for a device or for another process,
where no Python code runs.
"""

import signal
import threading
import time
from typing import Any, Callable

from processes import ranks

POLL_SECONDS = 0.05


class StopRequest:
    """Request to stop the job."""

    def __init__(self, end_process: Callable[[], Any], another_failed: Callable[[], bool] = lambda: False) -> None:
        """Store the callbacks.

        `end_process` reports the stop and ends the process. `another_failed` returns True when another process has
        failed, so that waiting for a common step is pointless.
        """
        self.is_requested = False
        self._may_finish_step = False
        self._shared: Any = None
        self._end_process, self._another_failed = end_process, another_failed
        self._end_lock = threading.Lock()

    def install(self) -> None:
        """Handle SIGTERM from now on.

        Call it before any other thread starts, so that all of them leave the signal to this one.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._wait, name="stop request", daemon=True).start()

    def allow_finishing_step(self) -> None:
        """From now on, finish the step and save a checkpoint when stopped. All processes must call this together."""
        self._shared = ranks.shared_flag()
        self._may_finish_step = True

    def end_if_requested(self) -> None:
        """Announce that no step follows. Ends the process if a stop was requested."""
        self._may_finish_step = False
        if self.is_requested:
            self.end()

    def should_stop(self) -> bool:
        """Return True if the training should stop at this step.

        Called by all processes at once, it returns the same to all.
        """
        if not self._may_finish_step:
            return False
        if self._shared is not None:
            agreed = bool(self._shared.raised_before(self.is_requested))
            self.is_requested = self.is_requested or agreed
            return agreed
        return self.is_requested

    def claim_end(self) -> None:
        """Return only in the first thread that calls this, which may then report the outcome.

        Others block until the exit.
        """
        self._end_lock.acquire()

    def end(self) -> None:
        """End the process as stopped."""
        self.claim_end()
        self._end_process()

    def _wait(self) -> None:
        signal.sigwait({signal.SIGTERM})
        self.is_requested = True
        while self._may_finish_step and not self._another_failed():
            time.sleep(POLL_SECONDS)
        self.end()
