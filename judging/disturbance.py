"""Disturbed measurements: jobs that shared their machine with others. The rule does not look at the jobs' results."""

from __future__ import annotations

import math
from collections.abc import Callable

LIMITS: dict[str, tuple[float, str]] = {
    "machine/others_cpu_percent": (5.0, "other processes used {:.0f} % of the job's CPUs"),
    "machine/others_cpus": (0.5, "other processes used {:.1f} CPUs"),
    "machine/steal_percent": (2.0, "the hypervisor took {:.0f} % of the job's CPUs"),
    "machine/throttled_percent": (2.0, "a CPU limit stopped the job for {:.0f} % of the time"),
    "machine/memory_stalled_percent": (2.0, "processes waited for memory for {:.0f} % of the time"),
    "machine/gpu_slowdown_percent": (10.0, "heat or power slowed the GPU down for {:.0f} % of the time"),
    "machine/gpu_shared_percent": (10.0, "other processes used its GPU for {:.0f} % of the time"),
}
"""Largest undisturbed value of each metric, and the reason if it is exceeded. docs/decisions/0020 has the measurements
behind them. Half a CPU is less than 5 % of more than ten CPUs, but a job still waits for its slowest one."""


def disturbances(number: Callable[[str], float]) -> list[str] | None:
    """Return the reasons why a job counts as disturbed; empty for a quiet job, None if nothing was measured.

    `number` returns the value of a metric, or NaN.
    """
    values = {name: value for name in LIMITS if math.isfinite(value := number(name))}
    if not values:
        return None
    exceeded = {name: value for name, value in values.items() if value > LIMITS[name][0]}
    if "machine/others_cpu_percent" in exceeded:
        exceeded.pop("machine/others_cpus", None)  # the same load in another unit
    return [LIMITS[name][1].format(value) for name, value in exceeded.items()]
