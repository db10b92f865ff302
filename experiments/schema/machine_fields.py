"""Fields of an experiment that select where a job runs: instances, and the AWS account on SageMaker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from judging.spot.rates import DEFAULT_PER_HOUR
from training.contract.job_spec import Launcher, Scalar
from training.staging.sources.request import Frozen, Name

Names = Annotated[tuple[Name, ...], Field(strict=False)]


class Machine(Frozen):
    """Instances and resources of a job."""

    instance_type: Name = "local"
    """Instance type, such as `ml.p3.2xlarge`. `local` is this machine."""
    fallback_instance_types: Names = ()
    """SageMaker: instance types to try, in this order, when `instance_type` is not available. At most four."""
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
    """Spot: seconds until the job must have ended, including the wait for capacity. None means `max_run_seconds`."""
    interruptions_per_hour: Annotated[float, Field(ge=0.0, le=3_600.0)] = DEFAULT_PER_HOUR
    """SageMaker: how often an instance on spot capacity is interrupted, for the expected cost of `probe` and `plan`.
    The default is the end of the band 15-20 % per month of AWS's Spot Instance Advisor, -ln(0.8) / 730 hours. Its other
    bands end at 0.00007 (5 %), 0.00014 (10 %) and 0.00022 (15 %); above 20 %, and for GPU types in demand, use the
    rate that you observe."""
    spot_discount_percent: Annotated[float, Field(ge=0.0, lt=100.0)] | None = None
    """SageMaker: discount of spot capacity on the price on demand, for the expected cost. None takes the median of
    earlier spot jobs of the experiment."""
    keep_alive_seconds: Annotated[int, Field(ge=0, le=21_600)] = 0
    """SageMaker: seconds for which the instances stay warm, and billed, for the next job with the same settings."""
    image: Name | None = None
    """SageMaker: URI of the container image. None takes the newest AWS image for the compiler."""


class Aws(Frozen):
    """AWS account, network and encryption keys. The configuration file of SageMaker's SDK supplies what is not set."""

    region: Name | None = None
    """Region. None means the region of the environment."""
    role: Name | None = None
    """Role that the jobs assume, by name or ARN. None means the role of this process, which works only inside
    SageMaker."""
    bucket: Name | None = None
    """Bucket for data, sources and artifacts. None means the bucket of the SDK, `sagemaker-<region>-<account>`."""
    subnets: Names = ()
    """Subnets of your VPC for the jobs. Requires `security_groups`."""
    security_groups: Names = ()
    """Security groups of the jobs. Requires `subnets`."""
    isolate_network: bool = False
    """Block outbound network calls of the container."""
    encrypt_traffic: bool = False
    """Encrypt the traffic between the instances of a job."""
    volume_key: Name | None = None
    """KMS key that encrypts the disks of the instances."""
    output_key: Name | None = None
    """KMS key that encrypts what is written to S3."""
    tags: Annotated[Mapping[str, str], Field(strict=False)] = {}
    """AWS tags of the jobs."""
    prices: Name | None = None
    """JSON file with prices. None reads the AWS price list."""

    def given(self) -> dict[str, Any]:
        """Return the fields that were set explicitly."""
        return {name: getattr(self, name) for name in self.model_fields_set}
