"""A CPU quota like that of a container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONTROLLER = Path("/sys/fs/cgroup/cpu")
PERIOD_MICROSECONDS = 100_000


def can_limit_cpus() -> bool:
    """Return whether this process may set CPU quotas: it must be root, and Linux must use cgroups v1."""
    return os.access(CONTROLLER / "cgroup.procs", os.W_OK) and (CONTROLLER / "cpu.cfs_quota_us").exists()


@contextmanager
def half_of_the_cpu_time() -> Iterator[None]:
    """Limit this process, and those that it starts in the context, to half of the CPU time together."""
    group = CONTROLLER / f"trainfare-{os.getpid()}"
    group.mkdir()
    try:
        cpus = len(os.sched_getaffinity(0))
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
        (group / "cpu.cfs_quota_us").write_text(str(PERIOD_MICROSECONDS * cpus // 2))
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (CONTROLLER / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()
