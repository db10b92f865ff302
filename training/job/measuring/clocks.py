"""Clocks for the meter: what the time is once the device has done all it was told.

A GPU works behind the script's back. `now` waits for it and so costs time: it is read a few times in a training.
`mark` costs nothing and is read at every step: a mark is an event in the device's queue, looked at later.
"""

import time
from typing import Any

import torch


class ProcessorClock:
    """For the CPU, which is done when a call returns."""

    def now(self) -> float:
        """Return seconds, from an arbitrary start."""
        return time.perf_counter()

    def mark(self) -> Any:
        """Return a mark of this moment."""
        return time.perf_counter()

    def seconds_between(self, start: Any, end: Any) -> float:
        """Return the seconds between two marks."""
        return float(end - start)


class CudaClock:
    """For NVIDIA GPUs: marks are CUDA events."""

    def now(self) -> float:
        """Return seconds once the GPU has done all it was told."""
        torch.cuda.synchronize()
        return time.perf_counter()

    def mark(self) -> Any:
        """Queue a mark behind what the GPU was told."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds_between(self, start: Any, end: Any) -> float:
        """Return the seconds between two marks, waiting for the second if the GPU is not there yet."""
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000


class XlaClock(ProcessorClock):
    """For XLA devices, which have no events: a step's marks are those of the processor that feeds the device."""

    def now(self) -> float:
        """Return seconds once the device has done all it was told."""
        import torch_xla.core.xla_model as xm

        xm.mark_step()
        xm.wait_device_ops()
        return time.perf_counter()


CLOCKS = {"cpu": ProcessorClock, "cuda": CudaClock, "xla": XlaClock}


def clock_for(device_kind: str) -> ProcessorClock:
    """Return the clock of a kind of device; unknown kinds get the processor's."""
    return CLOCKS.get(device_kind, ProcessorClock)()  # type: ignore[return-value]
