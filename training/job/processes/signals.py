"""Handle SIGTERM: a job with checkpoints finishes its step and saves; any other job ends immediately.

A separate thread waits for the signal. The main thread may be waiting for a device or another process, and cannot run a
signal handler then.
"""

import signal
import threading
import time
from typing import Any, Callable

from training.job.processes import ranks

POLL_SECONDS = 0.05


class StopRequest:
    """Request to stop the job."""

    def __init__(self, end_process: Callable[[], Any], another_failed: Callable[[], bool] = lambda: False) -> None:
        """Store the callbacks.

        `end_process` reports the stop and ends the process. `another_failed` returns True when another process has
        failed, so that the processes can no longer finish a step together.
        """
        self.is_requested = False
        self._may_finish_step = False
        self._shared: Any = None
        self._end_process, self._another_failed = end_process, another_failed
        self._end_lock = threading.Lock()

    def install(self) -> None:
        """Handle SIGTERM from now on.

        Call this before any other thread starts: threads inherit the blocked signal, which leaves it to this object's
        thread.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._wait, name="stop request", daemon=True).start()

    def allow_finishing_step(self) -> None:
        """Make later stops finish the step and save a checkpoint. All processes must call this together."""
        self._shared = ranks.shared_flag()
        self._may_finish_step = True

    def end_if_requested(self) -> None:
        """Announce that no step follows, and end the process if a stop was requested."""
        self._may_finish_step = False
        if self.is_requested:
            self.end()

    def should_stop(self) -> bool:
        """Return True if the training should stop at this step.

        All processes must call this at the same step. It returns the same value in all of them.
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

        Other threads block until the process exits.
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
