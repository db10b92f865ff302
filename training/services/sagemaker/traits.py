"""Traits of Amazon SageMaker as a service."""

from __future__ import annotations

from training.contract.service import Traits

TRAITS = Traits(
    name="sagemaker",
    label="Amazon SageMaker",
    instance_type=None,
    machine_fields=(
        *("fallback_instance_types", "launcher", "mpi_options", "model_parallel", "spot", "max_wait_seconds"),
        *("keep_alive_seconds", "image", "spot_discount_percent", "capacity_retry_minutes"),
    ),
    section="aws",
    runs_here=False,
    keeps_state_in_home=False,
    runs_containers=True,
    streams_channels=True,
    has_prices=True,
    has_warm_pools=True,
    may_lack_instances=True,
    can_be_interrupted=True,
    lists_costs=False,
    reads_aws=True,
    stop_grace_variable=None,
)
