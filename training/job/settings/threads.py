"""Number of threads of a job on a CPU."""

import math
from pathlib import Path
from typing import Iterator, Mapping, Optional

import torch

from training.job.measuring.machine_load import job_cpus
from training.job.processes import ranks
from training.job.processes.reporting import Unsupported

CORES_VARIABLE = "TRAINFARE_CORES"
THREADS_VARIABLE = "OMP_NUM_THREADS"
SERVICE_CPUS_VARIABLE = "SM_NUM_CPUS"


def set_threads(environment: Mapping[str, str]) -> None:
    """Set the number of threads at the start of the job: OMP_NUM_THREADS, or at most one for each usable CPU."""
    if environment.get(THREADS_VARIABLE):
        torch.set_num_threads(_first_number(environment[THREADS_VARIABLE]))
    if not is_fixed(environment):
        torch.set_num_threads(min(torch.get_num_threads(), usable_cpus()))


def _first_number(text: str) -> int:
    """Return the number of threads of the outermost level: OpenMP allows a list, with a number for each level."""
    first = text.split(",")[0].strip()
    if not first.isdecimal() or int(first) == 0:
        raise Unsupported(f"{THREADS_VARIABLE} must begin with a whole number above 0, but it is {text!r}")
    return int(first)


def is_fixed(environment: Mapping[str, str]) -> bool:
    """Return True if somebody chose the number of threads.

    The service sets OMP_NUM_THREADS to the number of the job's CPUs. Any other number is somebody's choice.
    """
    if ranks.count() > 1 or environment.get(CORES_VARIABLE):
        return True
    threads = environment.get(THREADS_VARIABLE)
    return bool(threads) and threads != environment.get(SERVICE_CPUS_VARIABLE)


def usable_cpus(root: Path = Path("/"), cpus: Optional[int] = None) -> int:
    """Return the number of CPUs for this job's threads: `cpus`, or the quota of its cgroup if that is less.

    By default, `cpus` is the number in the affinity mask. A quota of 1.5 CPUs counts as 2: both threads then wait
    at the same time, which loses less than a missing thread.
    """
    quota = min(_quotas(root), default=math.inf)
    allowed = cpus or job_cpus()
    return allowed if math.isinf(quota) else min(allowed, max(1, int(quota + 0.5)))


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
