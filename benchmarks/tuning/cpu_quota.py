"""A CPU quota like that of a container."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CONTROLLER = Path("/sys/fs/cgroup/cpu")
PERIOD_MICROSECONDS = 100_000
SECONDS_TO_END = 10


def can_limit_cpus() -> bool:
    """Return whether this process may set CPU quotas: it must be root, and Linux must use cgroups v1."""
    return os.access(CONTROLLER / "cgroup.procs", os.W_OK) and (CONTROLLER / "cpu.cfs_quota_us").exists()


@contextmanager
def half_of_the_cpu_time() -> Iterator[None]:
    """Limit this process, and those that it starts in the context, to half of the CPU time together."""
    own = _own_group()
    group = own / f"trainfare-{os.getpid()}"
    group.mkdir()
    try:
        cpus = len(os.sched_getaffinity(0))
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
        (group / "cpu.cfs_quota_us").write_text(str(PERIOD_MICROSECONDS * cpus // 2))
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (own / "cgroup.procs").write_text(str(os.getpid()))
        _remove(group)


def _own_group() -> Path:
    """Return the control group of this process."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(",") and (CONTROLLER / path.lstrip("/")).is_dir():
            return CONTROLLER / path.lstrip("/")
    return CONTROLLER


def _remove(group: Path) -> None:
    """Remove a control group once the processes in it have ended. One that lasts longer is left, with a message."""
    deadline = time.monotonic() + SECONDS_TO_END
    while time.monotonic() < deadline:
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)
    print(f"warning: {group} was not removed, because processes in it still run.", file=sys.stderr)
