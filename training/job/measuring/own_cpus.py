"""The CPUs that this job may use: their number, and how much of them other processes use."""

import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import FrozenSet, Iterator, Optional

from measuring.machine_load import TICKS_PER_SECOND, job_cpus


@dataclass(frozen=True)
class CpuReading:
    """Counters at one instant, in seconds."""

    at: float
    """Monotonic clock."""
    busy: float
    """CPU seconds of all processes on the CPUs of this process."""
    own: float
    """CPU seconds of this process."""


def read(proc: Path = Path("/proc")) -> Optional[CpuReading]:
    """Return the counters now, or None on a system without them. One file is read, so this takes a fraction of a ms."""
    try:
        text = (proc / "stat").read_text()
        return CpuReading(
            time.monotonic(), _busy_seconds(text, frozenset(os.sched_getaffinity(0))), time.process_time()
        )
    except (OSError, AttributeError, ValueError, IndexError):
        return None


def others_cpus(first: CpuReading, last: CpuReading) -> float:
    """Return the mean number of CPUs that other processes used between two readings, of those of this process."""
    elapsed = last.at - first.at
    return max(0.0, (last.busy - first.busy - (last.own - first.own)) / elapsed) if elapsed > 0 else 0.0


def usable_cpus(root: Path = Path("/"), cpus: Optional[int] = None) -> int:
    """Return the number of CPUs for this job's threads: `cpus`, or the quota of its cgroup if that is less.

    By default, `cpus` is that of the affinity mask. A quota of 1.5 CPUs counts as 2: both threads then wait
    at the same time, which loses less than a missing thread.
    """
    quota = min(_quotas(root), default=math.inf)
    allowed = cpus or job_cpus()
    return allowed if math.isinf(quota) else min(allowed, max(1, int(quota + 0.5)))


def _busy_seconds(text: str, cpus: FrozenSet[int]) -> float:
    """Return the busy seconds of these CPUs in /proc/stat: user, nice, system, irq and softirq."""
    ticks = 0
    for line in text.splitlines():
        name, _, values = line.partition(" ")
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            fields = [int(value) for value in values.split()]
            ticks += sum(fields[0:3]) + sum(fields[5:7])
    return ticks / TICKS_PER_SECOND


def _quotas(root: Path) -> Iterator[float]:
    """Yield the CPU limits of the process's cgroups, in CPUs, from version 2 or 1."""
    for folder in _cgroups(root):
        try:
            if (folder / "cpu.max").is_file():
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
            if quota not in ("max", "-1"):
                yield int(quota) / int(period)
        except (OSError, ValueError, ZeroDivisionError):
            continue


def _cgroups(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's cgroup and those above it. In a container, its own is mounted at the top."""
    mount = root / "sys" / "fs" / "cgroup"
    yield from (mount, mount / "cpu", mount / "cpu,cpuacct")
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers or "cpu" in controllers.split(","):
            base = mount / controllers if controllers else mount
            parts = [part for part in path.split("/") if part not in ("", "..")]
            yield from (base.joinpath(*parts[:depth]) for depth in range(len(parts), 0, -1))
