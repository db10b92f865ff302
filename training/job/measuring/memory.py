"""Peak memory of a part of a training, and a memory limit that gives an error instead of a killed process."""

import gc
import resource
from contextlib import suppress
from pathlib import Path
from typing import Optional

import torch

from measuring.hardware import GIB, memory_metrics

CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""proc(5): writing this value resets the peak of the resident set to its current size."""

KIB = 1024

MARGIN = 0.95
"""Share of the free memory that the job may use. The rest remains for the system."""

CGROUPS = (
    ("/sys/fs/cgroup/", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""For each version of control groups: folder, file with the container's memory limit, file with its usage, and key of
the file cache, the part of the usage that the kernel frees when memory is short."""


def reset_peak(kind: str) -> None:
    """Free unused memory and restart the measurement of the peak."""
    gc.collect()
    if kind == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return
    # If the file cannot be written, `peak_gib` returns the peak since the process started, which is still right for
    # parts that need more memory than those before them.
    with suppress(OSError):
        CLEAR_REFS.write_text(RESET_PEAK)


def peak_gib(kind: str) -> float:
    """Return the peak memory since the last reset in GiB: reserved memory on a GPU, else resident memory."""
    if kind == "cuda":
        return float(torch.cuda.max_memory_reserved()) / GIB
    resident = _number_after("/proc/self/status", "VmHWM:")
    return memory_metrics(kind)["memory/peak_resident_gib"] if resident is None else resident * KIB / GIB


def limit_to_free_memory(processes_here: int) -> None:
    """Limit the process to its share of the free memory, so that it gets an error instead of being killed.

    Linux grants more memory than it has, and then kills a process that uses it, which no program can handle. A lower
    limit that is already set stays in force.
    """
    free, used = free_bytes(), _number_after("/proc/self/status", "VmData:")
    if free is None or used is None:
        return
    limit = used * KIB + int(free * MARGIN) // processes_here
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    finite = [each for each in (soft, hard, limit) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(finite), hard))


def free_bytes() -> Optional[int]:
    """Return the free memory of the machine, or of the container if it has a limit; None if it is unknown."""
    available = _number_after("/proc/meminfo", "MemAvailable:")
    free = [] if available is None else [available * KIB]
    for folder, limit, usage, file_cache in CGROUPS:
        total, used = _number(folder + limit), _number(folder + usage)
        if total is not None and used is not None:
            free.append(max(total - used + (_number_after(folder + "memory.stat", file_cache) or 0), 0))
    return min(free, default=None)


def _number_after(file: str, key: str) -> Optional[int]:
    """Return the number in the line that starts with the key, or None."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [key]), None)


def _number(file: str) -> Optional[int]:
    try:
        return int(Path(file).read_text())
    except (OSError, ValueError):
        return None
