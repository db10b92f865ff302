"""What one job is, said without saying how any service spells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Compiler = Literal["none", "inductor", "trcomp", "trcomp-off"]
COMPILERS: tuple[str, ...] = get_args(Compiler)

Launcher = Literal["torchrun", "pytorchddp", "smddp", "smp", "xla"]
"""How several processes start: PyTorch's torchrun, the toolkit's runner for DDP, SageMaker's libraries for data and for
model parallelism, PyTorch/XLA's spawner."""

Scalar = str | int | float | bool

JOB_NAME_PATTERN = r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$"


class MetricDefinition(BaseModel):
    """A metric that the service itself reads from the log."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Name under which the service reports the last value."""
    regex: str
    """Regular expression with one group, matched against each log line."""


class JobSpec(BaseModel):
    """One job, complete: everything that `training.contract.request` needs and nothing that it has to look up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=JOB_NAME_PATTERN)
    """Job name, unique within a service: 1 to 63 letters, digits and inner hyphens (CreateTrainingJob's rule)."""
    compiler: Compiler = "none"
    """Compiler setting; `trcomp` and `trcomp-off` exist in SageMaker's images alone."""
    hyperparameters: Mapping[str, Scalar]
    """Arguments of the program, without the `sagemaker_*` keys, which the request adds."""
    channels: Mapping[str, str]
    """Channel name to URI of its folder: `file://` locally, `s3://` on SageMaker."""
    source_uri: str
    """Source of the job: a folder (`file://`) locally, a `sourcedir.tar.gz` in S3 on SageMaker."""
    program: str = "train.py"
    """Entry point within the source."""
    output_uri: str
    """Folder or S3 prefix under which the job's artifacts land, in a folder of the job's name."""
    checkpoint_uri: str | None = None
    """Folder or S3 prefix kept in step with the container's checkpoint folder; None keeps none."""
    image: str = "local"
    """Container image URI; the local service ignores it."""
    role_arn: str = "arn:aws:iam::000000000000:role/local"
    """Role that the job assumes; the local service ignores it."""
    region: str = "local"
    """AWS region; the local service ignores it."""
    instance_type: str = "local"
    """Machine type, such as `ml.p3.2xlarge`; `local` is this machine."""
    instance_count: int = Field(default=1, ge=1)
    """Machines."""
    devices: int = Field(default=1, ge=1)
    """Processes per machine, one a device."""
    launcher: Launcher | None = None
    """How several processes start; None is `xla` in the Training Compiler's images and `torchrun` elsewhere."""
    mpi_options: str = ""
    """Further options of `mpirun`; goes with `smddp` and `smp`."""
    model_parallel: Mapping[str, Scalar] = {}
    """Parameters of SageMaker's model-parallel library, such as `partitions`; goes with `smp`."""
    compiler_debug: bool = False
    """Whether the Training Compiler dumps what it does to the job's output; slows training down."""
    fallback_instance_types: tuple[str, ...] = ()
    """Machine types to take, in this order, where `instance_type` is not to be had."""
    spot: bool = False
    """Run on spare capacity, which may be taken back at any moment."""
    max_wait_seconds: int | None = Field(default=None, ge=1)
    """With `spot`: seconds to the job's end, waiting for capacity included; None is `max_run_seconds`."""
    keep_alive_seconds: int = Field(default=0, ge=0, le=21_600)
    """Seconds for which the machines stay, billed, for a next job of the same settings; 0 keeps none."""
    subnets: tuple[str, ...] = ()
    """Subnets of the user's network that the job runs in; goes with `security_groups`."""
    security_groups: tuple[str, ...] = ()
    """Security groups of the job's network interfaces."""
    isolate_network: bool = False
    """Let the container make no calls to the outside."""
    encrypt_traffic: bool = False
    """Encrypt what the machines of one job tell each other; makes distributed training slower."""
    volume_key: str | None = None
    """KMS key of the machines' disks."""
    output_key: str | None = None
    """KMS key of the artifacts in S3."""
    volume_gib: int = Field(default=30, ge=1)
    """Disk per machine, GiB."""
    max_run_seconds: int = Field(default=86_400, ge=1)
    """Seconds after which the service stops the job; it then counts as failed (class TimeLimit)."""
    environment: Mapping[str, str] = {}
    """Environment variables of the job."""
    metric_definitions: tuple[MetricDefinition, ...] = ()
    """Metrics that the service itself reads from the log."""
    tags: Mapping[str, str] = {}
    """Tags of the job at the service."""
