"""Number of threads beside other processes. Pure.

The threads of an operation wait for each other in a loop. If another process holds the CPU of one of them, the others
burn their time, and the step takes several times as long as with one thread less.
"""

import math
from typing import Optional

FEWER_ABOVE = 0.6
"""Other processes take a thread's place when they use more than this part of a CPU. Beside threads that wait in a loop,
a process that is always busy gets only two thirds of one CPU out of two."""
MORE_BELOW = 0.25
"""A thread comes back when other processes use less than this part of a CPU."""
CALM_READINGS = 2
"""Consecutive readings that must allow more threads before any comes back."""


class SharedCpus:
    """Controller of the number of threads, from how much of the job's CPUs other processes use."""

    def __init__(self, cpus: int, largest: int, threads: Optional[int] = None) -> None:
        """Begin with `threads`, by default with `largest`: the number of threads without other processes.

        `cpus` is the number of CPUs of the job.
        """
        self._cpus, self.largest = cpus, largest
        self.threads = largest if threads is None else threads
        """Current number of threads."""
        self._calm = 0

    def update(self, others_cpus: float) -> int:
        """Return the number of threads after a reading: `others_cpus` is the number of CPUs that others used."""
        free = self._cpus - others_cpus
        fewer, more = self._threads_in(free, FEWER_ABOVE), self._threads_in(free, MORE_BELOW)
        self._calm = self._calm + 1 if more > self.threads else 0
        if fewer < self.threads:
            self.threads = fewer
        elif self._calm >= CALM_READINGS:
            self.threads, self._calm = more, 0
        return self.threads

    def _threads_in(self, free: float, tolerance: float) -> int:
        return max(1, min(self.largest, math.floor(free + tolerance)))
