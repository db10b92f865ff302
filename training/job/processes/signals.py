"""SIGTERM: a job that keeps checkpoints finishes its step and saves; any other ends at once.

A thread of its own waits for the signal, because the main thread may be waiting for a device or for another process,
where no Python runs.
"""

import signal
import threading
import time
from typing import Any, Callable

from processes import ranks

POLL_SECONDS = 0.05


class StopRequest:
    """Whether the job was asked to stop."""

    def __init__(self, end: Callable[[], Any], others_failed: Callable[[], bool] = lambda: False) -> None:
        """`end` tells of the stop and ends the process; `others_failed` whether another process waits for nobody."""
        self.is_asked = False
        self._may_finish_step = False
        self._shared: Any = None
        self._end, self._others_failed = end, others_failed
        self._ending = threading.Lock()

    def install(self) -> None:
        """Take SIGTERM from now on; before any other thread is started, so that all leave it to this one."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._wait, name="stop request", daemon=True).start()

    def finish_steps(self) -> None:
        """Say that from now on a checkpoint is saved at the end of a step. All processes come here together."""
        self._shared = ranks.shared_flag()
        self._may_finish_step = True

    def finish_no_more_steps(self) -> None:
        """Say that no step follows; ends the process when the job was asked to stop."""
        self._may_finish_step = False
        if self.is_asked:
            self.end()

    def is_due(self) -> bool:
        """Tell whether to stop here. Asked in step by all processes, it gives all of them the same answer."""
        if not self._may_finish_step:
            return False
        if self._shared is not None:
            agreed = bool(self._shared.raised_before(self.is_asked))
            self.is_asked = self.is_asked or agreed
            return agreed
        return self.is_asked

    def claim_end(self) -> None:
        """Return to the first thread that is to tell how the process ends; any other waits until it has ended."""
        self._ending.acquire()

    def end(self) -> None:
        """End the process as one that was stopped."""
        self.claim_end()
        self._end()

    def _wait(self) -> None:
        signal.sigwait({signal.SIGTERM})
        self.is_asked = True
        while self._may_finish_step and not self._others_failed():
            time.sleep(POLL_SECONDS)
        self.end()
