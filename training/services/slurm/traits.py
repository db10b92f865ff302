"""Traits of a Slurm cluster as a service."""

from __future__ import annotations

from typing import Any

from training.contract.service import GRACE_VARIABLE, Traits

NAME = "slurm"


def machine_name(section: Any, devices: int) -> str:
    """Return `slurm:PARTITION`, or `slurm:PARTITION/4xa100` with GPUs."""
    return f"{NAME}:{section.partition or 'default'}" + (f"/{devices}x{section.gpu}" if section.gpu else "")


TRAITS = Traits(
    name=NAME,
    label="Slurm",
    instance_type=NAME,
    machine_name=machine_name,
    machine_fields=("cores", "memory_gib"),
    section=NAME,
    runs_here=False,
    keeps_state_in_home=True,
    runs_containers=False,
    streams_channels=False,
    has_prices=True,
    has_warm_pools=False,
    may_lack_instances=False,
    can_be_interrupted=False,
    lists_costs=True,
    reads_aws=False,
    stop_grace_variable=GRACE_VARIABLE,
)
