"""Measure what slows a GPU down while a job runs: heat, power limits and other processes, from `nvidia-smi`."""

import os
import statistics
import subprocess
from typing import Collection, Dict, List, Optional, Set, Tuple

GPUS = (
    "nvidia-smi",
    "--query-gpu=utilization.gpu,clocks.sm,clocks.max.sm,clocks_throttle_reasons.active",
    "--format=csv,noheader,nounits",
)
PROCESSES = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader,nounits")
SLOWDOWN_BITS = 0x8 | 0x20 | 0x40 | 0x80
"""Hardware slowdown, thermal slowdown by software or hardware, and power brake, in NVML's bits of throttle reasons. The
software power cap (0x4) is not among them: a GPU at full load usually runs at it."""
MAX_SECONDS = 10.0


class GpuLoad:
    """Readings of the GPUs in use."""

    def __init__(self) -> None:
        self._clock_percents: List[float] = []
        self._slowed: List[bool] = []
        self._shared: List[bool] = []

    def read(self, sessions: Collection[int]) -> None:
        """Add a reading for the jobs in these sessions; none if nvidia-smi does not answer."""
        gpus = _output(GPUS)
        if gpus is not None:
            self.add_gpus(gpus)
            self.add_processes(_output(PROCESSES) or "", sessions)

    def add_gpus(self, output: str) -> None:
        """Add the output of `GPUS`: a line per GPU. GPUs that are not in use and values that are not known count not.

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

    def add_processes(self, output: str, sessions: Collection[int]) -> None:
        """Add the output of `PROCESSES`: a line for each process on a GPU.

        A GPU is shared if a process of `sessions` and one of another session use it. Process IDs that do not exist here
        count not: a container sees those of its host.
        """
        users: Dict[str, Set[bool]] = {}
        for gpu, process in filter(None, map(_gpu_and_process, output.splitlines())):
            try:
                users.setdefault(gpu, set()).add(os.getsid(process) in sessions)
            except OSError:
                continue
        ours = [kinds for kinds in users.values() if True in kinds]
        if ours:
            self._shared.append(any(False in kinds for kinds in ours))

    def metrics(self) -> Dict[str, float]:
        """Return the median clock in percent of the highest, and the percentages of slowed and of shared readings."""
        metrics = {}
        if self._slowed:
            metrics["machine/gpu_clock_percent"] = statistics.median(self._clock_percents)
            metrics["machine/gpu_slowdown_percent"] = _percent(self._slowed)
        if self._shared:
            metrics["machine/gpu_shared_percent"] = _percent(self._shared)
        return metrics


def _percent(readings: List[bool]) -> float:
    return 100 * sum(readings) / len(readings)


def _output(command: Tuple[str, ...]) -> Optional[str]:
    """Return the standard output of a command, or None if it fails."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=MAX_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def _gpu_and_process(line: str) -> Optional[Tuple[str, int]]:
    gpu, _, process = line.partition(",")
    try:
        return gpu.strip(), int(process)
    except ValueError:
        return None
