"""Measure what slows a GPU down while a job runs: heat, power limits and other processes, from `nvidia-smi`."""

import statistics
import subprocess
from typing import Dict, List

QUERY = (
    "nvidia-smi",
    "--query-gpu=utilization.gpu,clocks.sm,clocks.max.sm,clocks_throttle_reasons.active",
    "--format=csv,noheader,nounits",
)
SLOWDOWN_BITS = 0x8 | 0x20 | 0x40 | 0x80
"""Hardware slowdown, thermal slowdown by software or hardware, and power brake, in NVML's bits of throttle reasons. The
software power cap (0x4) is not among them: a GPU at full load usually runs at it."""
MAX_SECONDS = 10.0


class GpuLoad:
    """Readings of the GPUs in use."""

    def __init__(self) -> None:
        self._clock_percents: List[float] = []
        self._slowed: List[bool] = []

    def read(self) -> None:
        """Add a reading; none if nvidia-smi does not answer."""
        try:
            output = subprocess.run(
                QUERY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=MAX_SECONDS, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return
        self.add(output.decode(errors="replace"))

    def add(self, output: str) -> None:
        """Add the output of `QUERY`: a line per GPU. GPUs that are not in use and values that are not known count not.

        The slowest GPU decides, because the others wait for it.
        """
        clocks, slowed = [], []
        for line in output.splitlines():
            try:
                utilization, clock, most, reasons = (part.strip() for part in line.split(","))
                if int(utilization) > 0:
                    clocks.append(100 * float(clock) / float(most))
                    slowed.append(bool(int(reasons, 16) & SLOWDOWN_BITS))
            except (ValueError, ZeroDivisionError):
                continue
        if clocks:
            self._clock_percents.append(min(clocks))
            self._slowed.append(any(slowed))

    def metrics(self) -> Dict[str, float]:
        """Return the median clock in percent of the highest, and the percentage of readings with a slowdown."""
        if not self._slowed:
            return {}
        return {
            "machine/gpu_clock_percent": statistics.median(self._clock_percents),
            "machine/gpu_slowdown_percent": 100 * sum(self._slowed) / len(self._slowed),
        }
