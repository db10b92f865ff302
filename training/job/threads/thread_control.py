"""Threads of a job that trains on a CPU: their number at the start, and how they wait beside other processes."""

import time
from typing import Any, Callable, Dict, Mapping, Optional

import torch
from transformers import TrainerCallback

from measuring import own_cpus
from measuring.machine_load import job_cpus
from measuring.own_cpus import CpuReading
from processes import ranks
from reporting.errors import Unsupported
from reporting.events import Events
from threads.neighbours import SharedCpus
from threads.thread_waits import ThreadWaits

INTERVAL_SECONDS = 0.5
"""Shortest time between two readings. In shorter times, bursts of work of the command that reports on the job would
look like a busy process."""
CORES_VARIABLE = "TRAINFARE_CORES"
THREADS_VARIABLE = "OMP_NUM_THREADS"
SERVICE_CPUS_VARIABLE = "SM_NUM_CPUS"


def set_threads(environment: Mapping[str, str]) -> None:
    """Set the number of threads at the start of the job: OMP_NUM_THREADS, or at most one for each usable CPU."""
    if environment.get(THREADS_VARIABLE):
        torch.set_num_threads(_first_number(environment[THREADS_VARIABLE]))
    if not is_fixed(environment):
        torch.set_num_threads(min(torch.get_num_threads(), own_cpus.usable_cpus()))


def _first_number(text: str) -> int:
    """Return the number of threads of the outermost level: OpenMP allows a list, with a number for each level."""
    first = text.split(",")[0].strip()
    if not first.isdecimal() or int(first) == 0:
        raise Unsupported(f"{THREADS_VARIABLE} must begin with a whole number above 0, but it is {text!r}")
    return int(first)


def is_fixed(environment: Mapping[str, str]) -> bool:
    """Return True if somebody chose the number of threads.

    The service sets OMP_NUM_THREADS to the number of the job's CPUs. Any other number is somebody's choice.
    """
    if ranks.count() > 1 or environment.get(CORES_VARIABLE):
        return True
    threads = environment.get(THREADS_VARIABLE)
    return bool(threads) and threads != environment.get(SERVICE_CPUS_VARIABLE)


class ThreadControl(TrainerCallback):  # type: ignore[misc]
    """Callback that checks the load of the CPUs between steps, and lets threads block while the CPUs are crowded."""

    def __init__(
        self,
        events: Events,
        first: Optional[CpuReading],
        read: Callable[[], Optional[CpuReading]] = own_cpus.read,
    ) -> None:
        """Measure from this reading on; with None, never."""
        self._events, self._read = events, read
        self._waits, self._cpus = ThreadWaits(), SharedCpus(job_cpus())
        self._last = first
        self._steps = self._blocked_steps = 0
        self._was_reported = False

    def check(self) -> None:
        """Read the counters, unless the last reading is recent, and set how the threads wait."""
        if self._last is None or time.monotonic() < self._last.at + INTERVAL_SECONDS:
            return
        reading = self._read()
        if reading is None:
            return
        others = own_cpus.others_cpus(self._last, reading)
        self._last = reading
        self._waits.block(self._cpus.update(others, torch.get_num_threads()))
        if self._waits.are_blocking and not self._was_reported:
            self._was_reported = True
            text = (
                f"other processes use {others:.1f} of {job_cpus()} CPUs: until they stop, this job's waiting threads "
                "block instead of spinning"
            )
            self._events.emit("note", message=text)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count the step, and check."""
        self._steps += 1
        self._blocked_steps += self._waits.are_blocking
        self.check()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Check during evaluations, too."""
        self.check()

    def metrics(self) -> Dict[str, float]:
        """Return `machine/*` about the threads; empty if nothing was measured, or if they cannot block."""
        if self._last is None or not self._steps or not self._waits.can_block:
            return {}
        return {"machine/steps_with_blocked_threads_percent": 100 * self._blocked_steps / self._steps}
