"""Load from other processes beside the jobs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

SPELL_SECONDS = 10.0
"""Mean length of the busy and of the idle spells, which are exponentially distributed."""
PROCESSES_PER_CORE = 2

_SPELLS = """
import random, sys, time
draw = random.Random(sys.argv[1])
mean = float(sys.argv[2])
while True:
    end = time.monotonic() + draw.expovariate(1 / mean)
    while time.monotonic() < end:
        pass
    time.sleep(draw.expovariate(1 / mean))
"""


@contextmanager
def neighbour(*, is_present: bool = True) -> Iterator[None]:
    """Load all cores in spells: a neighbour that comes and goes. Do nothing without `is_present`.

    During a spell, a job with one thread gets less than half of a core. A constant load would slow all jobs alike.
    """
    # All processes draw the same spells.
    command = [sys.executable, "-c", _SPELLS, str(time.time_ns()), f"{SPELL_SECONDS}"]
    with ExitStack() as stack:
        for _ in range(PROCESSES_PER_CORE * (os.cpu_count() or 1) if is_present else 0):
            process = stack.enter_context(subprocess.Popen(command, start_new_session=True))
            stack.callback(process.kill)
        yield


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep this number of processes busy all the time. They end with this process, however it ends."""
    code = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
    with ExitStack() as stack:
        for _ in range(count):
            command = [sys.executable, "-c", code]
            process = stack.enter_context(subprocess.Popen(command, start_new_session=True))
            stack.callback(process.kill)
        yield
