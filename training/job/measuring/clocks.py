"""Clocks for the meter that account for unfinished work on the device.

A GPU works asynchronously. `now` waits until it has finished. This costs time, so `now` is called only a few times in a
training. `mark` does not wait and is called at every step: it queues an event on the device, which is read later.
"""

import time
from typing import Any

import torch


class CpuClock:
    """Clock of a CPU, whose work has finished when a call returns."""

    def now(self) -> float:
        """Return seconds since an arbitrary start."""
        return time.perf_counter()

    def mark(self) -> Any:
        """Return the current time as a mark."""
        return time.perf_counter()

    def seconds_between(self, start: Any, end: Any) -> float:
        """Return the seconds between two marks."""
        return float(end - start)


class CudaClock:
    """Clock of an NVIDIA GPU, whose marks are CUDA events."""

    def now(self) -> float:
        """Wait until the GPU has finished, and return seconds."""
        torch.cuda.synchronize()
        return time.perf_counter()

    def mark(self) -> Any:
        """Queue a CUDA event behind the GPU's current work, and return it as the mark."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds_between(self, start: Any, end: Any) -> float:
        """Return the seconds between two marks. Waits until the GPU has reached the second mark."""
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000


class XlaClock(CpuClock):
    """Clock of an XLA device. XLA has no events, so a mark is the time at the CPU that feeds the device."""

    def now(self) -> float:
        """Wait until the device has finished, and return seconds."""
        import torch_xla.core.xla_model as xm

        xm.mark_step()
        xm.wait_device_ops()
        return time.perf_counter()


CLOCKS = {"cpu": CpuClock, "cuda": CudaClock, "xla": XlaClock}


def clock_for(device_kind: str) -> CpuClock:
    """Return the clock of a kind of device: the CPU's for unknown kinds."""
    return CLOCKS.get(device_kind, CpuClock)()  # type: ignore[return-value]
