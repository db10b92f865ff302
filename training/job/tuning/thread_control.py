"""Adapt the number of threads to other processes while a job trains on a CPU.

This changes the order in which numbers are summed, and so the last digits of the results. Jobs with a fixed number of
threads are left alone: with `machine.cores`, with OMP_NUM_THREADS, with several processes, and with a compiler, whose
programs contain the number.
"""

import time
from typing import Any, Callable, Dict, Mapping, Optional

import torch
from transformers import TrainerCallback

from measuring import own_cpus
from measuring.machine_load import job_cpus
from measuring.own_cpus import CpuReading
from processes import ranks
from reporting.events import Events
from tuning.neighbours import SharedCpus

INTERVAL_SECONDS = 0.5
"""Shortest time between two readings. In shorter times, moments of work of the command that follows the job would count
as a busy process."""
CORES_VARIABLE = "TRAINFARE_CORES"
THREADS_VARIABLE = "OMP_NUM_THREADS"
SERVICE_CPUS_VARIABLE = "SM_NUM_CPUS"


def set_threads(environment: Mapping[str, str]) -> None:
    """Set the number of threads at the start of the job: OMP_NUM_THREADS, or at most one for each usable CPU."""
    if environment.get(THREADS_VARIABLE):
        torch.set_num_threads(int(environment[THREADS_VARIABLE]))
    if not is_fixed(environment):
        torch.set_num_threads(min(torch.get_num_threads(), own_cpus.usable_cpus()))


def is_fixed(environment: Mapping[str, str]) -> bool:
    """Return True if the number of threads must not change.

    The service sets OMP_NUM_THREADS to the number of the job's CPUs. Any other number is somebody's choice.
    """
    if ranks.count() > 1 or environment.get(CORES_VARIABLE):
        return True
    threads = environment.get(THREADS_VARIABLE)
    return bool(threads) and threads != environment.get(SERVICE_CPUS_VARIABLE)


class ThreadControl(TrainerCallback):  # type: ignore[misc]
    """Callback that reads the load of the CPUs between steps and sets the number of threads."""

    def __init__(
        self, events: Events, first: Optional[CpuReading], read: Callable[[], Optional[CpuReading]] = own_cpus.read
    ) -> None:
        """Measure from this reading on. With None, the number of threads is fixed."""
        self._events, self._last, self._read = events, first, read
        self._cpus = SharedCpus(job_cpus(), torch.get_num_threads()) if first else None
        self._steps = self._steps_with_fewer = self._changes = 0

    @property
    def largest(self) -> int:
        """Number of threads without other processes; 0 if the number is fixed."""
        return self._cpus.largest if self._cpus else 0

    @property
    def is_quiet(self) -> bool:
        """True if other processes leave all threads their CPUs."""
        return self._cpus is None or self._cpus.threads == self._cpus.largest

    def limit(self, threads: int) -> None:
        """Use at most this number of threads from now on."""
        if self._cpus:
            self._cpus = SharedCpus(job_cpus(), threads, min(threads, self._cpus.threads))
            torch.set_num_threads(self._cpus.threads)

    def fix(self) -> None:
        """Use the largest number of threads from now on, whatever other processes do."""
        if self._cpus:
            torch.set_num_threads(self._cpus.largest)
        self._cpus = None

    def check(self) -> None:
        """Read the counters, unless the last reading is recent, and set the number of threads."""
        if self._cpus is None or self._last is None or time.monotonic() < self._last.at + INTERVAL_SECONDS:
            return
        reading = self._read()
        if reading is None:
            return
        before, others = self._cpus.threads, own_cpus.others_cpus(self._last, reading)
        self._last = reading
        threads = self._cpus.update(others)
        if threads != before:
            torch.set_num_threads(threads)
            if self._changes == 0:
                self._report(others)
            self._changes += 1

    def _report(self, others: float) -> None:
        assert self._cpus is not None
        count = f"{self._cpus.threads} of {self._cpus.largest} threads"
        self._events.emit("note", message=f"other processes use {others:.1f} CPUs: {count} are in use until they end")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count the step, and check."""
        self._steps += 1
        self._steps_with_fewer += not self.is_quiet
        self.check()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Check during evaluations, too."""
        self.check()

    def metrics(self) -> Dict[str, float]:
        """Return `machine/*` about the threads; empty if their number is fixed."""
        if self._cpus is None or not self._steps:
            return {}
        share = 100 * self._steps_with_fewer / self._steps
        return {"machine/steps_with_fewer_threads_percent": share, "machine/thread_changes": self._changes}
