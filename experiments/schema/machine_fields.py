"""Fields of an experiment that say where a job runs: the machines, and on SageMaker the account around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from training.contract.job_spec import Launcher, Scalar
from training.staging.sources.request import Frozen, Name

Names = Annotated[tuple[Name, ...], Field(strict=False)]


class Machine(Frozen):
    """What the job runs on."""

    instance_type: Name = "local"
    """Machine type, such as `ml.p3.2xlarge`; `local` is this machine."""
    fallback_instance_types: Names = ()
    """SageMaker: types to take, in this order, where `instance_type` is not to be had; at most four."""
    instance_count: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Machines."""
    devices: Annotated[int, Field(ge=1, le=64)] = 1
    """Processes on each machine, one a device."""
    launcher: Launcher | None = None
    """How several processes start; None is `xla` with the Training Compiler and `torchrun` elsewhere."""
    mpi_options: str = ""
    """SageMaker: further options of `mpirun`; goes with the launchers smddp and smp."""
    model_parallel: Annotated[Mapping[str, Scalar], Field(strict=False)] = {}
    """SageMaker: parameters of its model-parallel library, such as `partitions`; goes with launcher smp."""
    cores: Annotated[int, Field(ge=1, le=4_096)] | None = None
    """Processor cores of the job; None is all that this machine has."""
    memory_gib: Annotated[float, Field(gt=0.0, le=1e6)] | None = None
    """Memory of the job, GiB; None sets no limit."""
    volume_gib: Annotated[int, Field(ge=1, le=16_384)] = 30
    """Disk of each machine, GiB."""
    max_run_seconds: Annotated[int, Field(ge=1, le=2_419_200)] = 86_400
    """Seconds after which the job is stopped; 28 days at most."""
    spot: bool = False
    """SageMaker: run on spare capacity, which may be taken back; needs checkpoints, which it goes on from."""
    max_wait_seconds: Annotated[int, Field(ge=1, le=2_419_200)] | None = None
    """With spot: seconds to the job's end, waiting included; None is `max_run_seconds`."""
    keep_alive_seconds: Annotated[int, Field(ge=0, le=21_600)] = 0
    """SageMaker: seconds for which the machines stay, billed, for the next job of the same settings."""
    image: Name | None = None
    """SageMaker: address of the container image; None takes AWS's newest for the compiler setting."""


class Aws(Frozen):
    """Whose account, network and keys; the configuration file of SageMaker's SDK fills in what is not given."""

    region: Name | None = None
    """Region; None is that of the environment."""
    role: Name | None = None
    """Role that the jobs assume, by name or ARN; None is the one that this process runs as, inside SageMaker."""
    bucket: Name | None = None
    """Bucket for data, sources and artifacts; None is the SDK's, `sagemaker-<region>-<account>`."""
    subnets: Names = ()
    """Subnets of your network for the jobs; goes with `security_groups`."""
    security_groups: Names = ()
    """Security groups of the jobs."""
    isolate_network: bool = False
    """Let the container make no calls to the outside."""
    encrypt_traffic: bool = False
    """Encrypt what the machines of one job tell each other."""
    volume_key: Name | None = None
    """KMS key of the machines' disks."""
    output_key: Name | None = None
    """KMS key of what is written to S3."""
    tags: Annotated[Mapping[str, str], Field(strict=False)] = {}
    """Tags of the jobs at AWS."""
    prices: Name | None = None
    """Table of prices (JSON); None asks AWS's price list."""

    def given(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {name: getattr(self, name) for name in self.model_fields_set}
