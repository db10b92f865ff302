"""Fields of an experiment that select where a job runs: its instances and their resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from judging.spot.rates import DEFAULT_PER_HOUR
from training.contract.job_spec import Launcher, Scalar
from training.staging.sources.request import Frozen, Name

Names = Annotated[tuple[Name, ...], Field(strict=False)]
Minutes = Annotated[tuple[Annotated[float, Field(ge=0.0, le=1_440.0)], ...], Field(strict=False, max_length=10)]


def _version(value: object, info: ValidationInfo) -> object:
    """Return a version as text. YAML reads 2.10 as the number 2.1, so a number that ends in .1 is ambiguous."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if str(value).endswith(".1"):
        raise ValueError(
            f"machine.image.{info.field_name} is {value}, which may be version {value} or {value}0: write the version "
            "in quotes"
        )
    return str(value)


Version = Annotated[str, BeforeValidator(_version), Field(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){0,2}$")]


class Image(Frozen):
    """Container image: its URI, or versions of AWS's image."""

    uri: Name | None = None
    """URI of the image. It excludes the versions."""
    transformers: Version | None = None
    """Version of Transformers, in full or its beginning: `4.49` or `4.49.0`."""
    pytorch: Version | None = None
    """Version of PyTorch, in full or its beginning: `2.5` or `2.5.1`. Write `"2.10"` in quotes."""

    @model_validator(mode="before")
    @classmethod
    def _from_uri(cls, value: Any) -> Any:
        return {"uri": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> Image:
        if self.uri and self.versions():
            raise ValueError("machine.image has a URI and versions; the URI states the versions, so leave them out")
        return self

    def versions(self) -> dict[str, str]:
        """Return the versions that are set."""
        values = {"transformers": self.transformers, "pytorch": self.pytorch}
        return {name: value for name, value in values.items() if value is not None}


class Machine(Frozen):
    """Instances and resources of a job."""

    instance_type: Name = "local"
    """Instance type, such as `ml.p3.2xlarge`. `local` is this machine."""
    fallback_instance_types: Names = ()
    """SageMaker: at most four instance types, each with as many GPUs, to try when `instance_type` is not available."""
    instance_count: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Number of instances."""
    devices: Annotated[int, Field(ge=1, le=64)] = 1
    """Devices per instance: GPUs, or Neuron cores of Trainium. Each one gets a process."""
    launcher: Launcher | None = None
    """Launcher of several processes. None means `xla` with the Training Compiler and `torchrun` otherwise."""
    mpi_options: str = ""
    """SageMaker: additional options of `mpirun`, for the launchers `smddp` and `smp`."""
    model_parallel: Annotated[Mapping[str, Scalar], Field(strict=False)] = {}
    """SageMaker: parameters of its model-parallel library, for the launcher `smp`."""
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
    """Spot: seconds until the job must have ended, waits included. None means a day more than `max_run_seconds`."""
    capacity_retry_minutes: Minutes = (5.0, 10.0, 20.0)
    """SageMaker: minutes before each retry of a job without capacity."""
    interruptions_per_hour: Annotated[float, Field(ge=0.0, le=3_600.0)] = DEFAULT_PER_HOUR
    """SageMaker: interruptions of an instance on spot capacity, for the expected cost. The default is 20 % per month;
    5 % is 0.00007. AWS's Spot Instance Advisor states the rates."""
    spot_discount_percent: Annotated[float, Field(ge=0.0, lt=100.0)] | None = None
    """SageMaker: discount of spot capacity, for the expected cost. None takes the median of earlier spot jobs of the
    experiment."""
    keep_alive_seconds: Annotated[int, Field(ge=0, le=21_600)] = 0
    """SageMaker: seconds for which the instances stay warm, and billed, for the next job."""
    image: Image | None = None
    """SageMaker: container image. None takes AWS's newest one that can run the job on the instance type."""
