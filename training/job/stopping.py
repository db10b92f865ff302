"""SIGTERM: a job that keeps checkpoints finishes its step and saves; any other ends at once."""

import signal
from types import FrameType
from typing import Optional

from problems import Stopped


class StopRequest:
    """Whether the job was asked to stop."""

    def __init__(self) -> None:
        self.is_asked = False
        self.may_finish_step = False
        """Set while a step is under way whose end will save a checkpoint."""

    def install(self) -> None:
        """Take SIGTERM from now on."""
        signal.signal(signal.SIGTERM, self._receive)

    def raise_if_asked(self) -> None:
        """Raise `Stopped` when the job was asked to stop."""
        if self.is_asked:
            raise Stopped("SIGTERM was received")

    def _receive(self, number: int, frame: Optional[FrameType]) -> None:
        second_time, self.is_asked = self.is_asked, True
        if second_time or not self.may_finish_step:
            self.raise_if_asked()
