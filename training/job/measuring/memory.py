"""How much memory a stretch of a training takes at its peak, and a limit that makes running out of it an error."""

import gc
import resource
from contextlib import suppress
from pathlib import Path
from typing import Optional

import torch

from measuring.hardware import GIB, memory_metrics

CLEAR = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""proc(5): writing it makes the peak of the resident set what the resident set is now."""

KIB = 1024

MARGIN = 0.95
"""Of the memory that is free: the rest is left to the system."""

CGROUPS = (
    ("/sys/fs/cgroup/", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Where the two versions of control groups tell a container's limit, what of it is in use, and what of that are files
that the kernel drops when memory is wanted."""


def forget_peak(kind: str) -> None:
    """Give back what is free and count the peak anew from here."""
    gc.collect()
    if kind == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return
    # Where it cannot be written, the peak is that of the whole process so far: of stretches that grow, the last one's.
    with suppress(OSError):
        CLEAR.write_text(RESET_PEAK)


def peak_gib(kind: str) -> float:
    """Return the largest memory since the peak was forgotten, GiB: reserved on a GPU, else resident."""
    if kind == "cuda":
        return float(torch.cuda.max_memory_reserved()) / GIB
    resident = _number_of("/proc/self/status", "VmHWM:")
    return memory_metrics(kind)["memory/peak_resident_gib"] if resident is None else resident * KIB / GIB


def hold_to_free_memory(processes_here: int) -> None:
    """See to it that a process that needs more than the free memory's part of it gets an error, and is not killed.

    A processor's memory is promised freely and taken back by killing who uses it, which nobody can catch. A limit that
    is lower already stays.
    """
    free, used = free_bytes(), _number_of("/proc/self/status", "VmData:")
    if free is None or used is None:
        return
    wanted = used * KIB + int(free * MARGIN) // processes_here
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    lower = [limit for limit in (soft, hard, wanted) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(lower), hard))


def free_bytes() -> Optional[int]:
    """Return the memory that the machine, or the container where it has a limit, has left; None where nobody says."""
    available = _number_of("/proc/meminfo", "MemAvailable:")
    found = [] if available is None else [available * KIB]
    for folder, limit, usage, files in CGROUPS:
        most, used = _number(folder + limit), _number(folder + usage)
        if most is not None and used is not None:
            found.append(max(most - used + (_number_of(folder + "memory.stat", files) or 0), 0))
    return min(found, default=None)


def _number_of(file: str, key: str) -> Optional[int]:
    """Return the number that follows the key at a line's beginning."""
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
