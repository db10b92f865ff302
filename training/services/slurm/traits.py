"""Traits of a Slurm cluster as a service."""

from __future__ import annotations

from training.contract.service import GRACE_VARIABLE, Traits

TRAITS = Traits(
    name="slurm",
    label="Slurm",
    instance_type="slurm",
    machine_fields=("cores", "memory_gib"),
    section="slurm",
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
