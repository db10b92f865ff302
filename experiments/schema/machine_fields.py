"""Fields of an experiment that select where a job runs: its instances and their resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from training.contract.job_spec import Launcher, Scalar
from training.staging.sources.request import Frozen, Name

Names = Annotated[tuple[Name, ...], Field(strict=False)]


class Machine(Frozen):
    """Instances and resources of a job."""

    instance_type: Name = "local"
    """Instance type, such as `ml.p3.2xlarge`. `local` is this machine."""
    fallback_instance_types: Names = ()
    """SageMaker: instance types to try, in this order, when `instance_type` is not available. At most four, each with
    as many GPUs."""
    instance_count: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Number of instances."""
    devices: Annotated[int, Field(ge=1, le=64)] = 1
    """Devices per instance. Each one gets a process."""
    launcher: Launcher | None = None
    """Launcher of several processes. None means `xla` with the Training Compiler and `torchrun` otherwise."""
    mpi_options: str = ""
    """SageMaker: additional options of `mpirun`, for the launchers `smddp` and `smp`."""
    model_parallel: Annotated[Mapping[str, Scalar], Field(strict=False)] = {}
    """SageMaker: parameters of its model-parallel library, such as `partitions`, for the launcher `smp`."""
    cores: Annotated[int, Field(ge=1, le=4_096)] | None = None
    """Local: CPU cores of the job. None means all cores of this machine."""
    memory_gib: Annotated[float, Field(gt=0.0, le=1e6)] | None = None
    """Local: memory limit of the job, in GiB. None sets no limit."""
    volume_gib: Annotated[int, Field(ge=1, le=16_384)] = 30
    """Disk size per instance, in GiB."""
    max_run_seconds: Annotated[int, Field(ge=1, le=2_419_200)] = 86_400
    """Seconds after which the job is stopped, at most 28 days."""
    spot: bool = False
    """SageMaker: run on spot capacity, which can be interrupted. Requires checkpoints to resume from."""
    max_wait_seconds: Annotated[int, Field(ge=1, le=2_419_200)] | None = None
    """Spot: seconds until the job must have ended, including the waits for capacity. None means `max_run_seconds` and
    a day, at most 28 days. Waiting costs nothing."""
    keep_alive_seconds: Annotated[int, Field(ge=0, le=21_600)] = 0
    """SageMaker: seconds for which the instances stay warm, and billed, for the next job with the same settings."""
    image: Name | None = None
    """SageMaker: URI of the container image. None takes the newest AWS image for the compiler."""
