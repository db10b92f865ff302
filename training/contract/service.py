"""A training service: its traits, its protocol, how it is opened, and what its description of a job shows.

Each service has a room in `training/services`: `traits.py` declares its traits, `room.py` opens it. The rooms are
listed in `training/services/registry.py`. Imports only the standard library, because every command reads the traits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, NotRequired, Protocol, TypedDict

from training.contract.price import Price, Resources, instances_of

if TYPE_CHECKING:  # pydantic takes long
    from training.contract.job_spec import JobSpec


class Channel(TypedDict):
    ChannelName: str
    DataSource: dict[str, dict[str, str]]
    InputMode: NotRequired[str]


class Algorithm(TypedDict, total=False):
    TrainingImage: str
    AlgorithmName: str
    MetricDefinitions: list[dict[str, str]]


class _Shared(TypedDict, total=False):
    InputDataConfig: list[Channel]
    CheckpointConfig: dict[str, str]
    EnableManagedSpotTraining: bool
    Environment: dict[str, str]


class Request(_Shared):
    """`CreateTrainingJob` request, for boto3's `create_training_job(**request)`: the members that are read here."""

    TrainingJobName: str
    AlgorithmSpecification: Algorithm
    RoleArn: str
    HyperParameters: dict[str, str]
    OutputDataConfig: dict[str, str]
    ResourceConfig: Resources
    StoppingCondition: dict[str, int]


class Transition(TypedDict):
    Status: str
    StartTime: datetime
    EndTime: NotRequired[datetime]
    StatusMessage: NotRequired[str]


class Description(_Shared):
    """`DescribeTrainingJob` response: the members that are used. All times have a time zone.

    TrainingJobStatus is InProgress, Completed, Failed, Stopping or Stopped. Lists of jobs omit what only a description
    has, and vanished jobs what was never known.
    """

    TrainingJobName: str
    TrainingJobStatus: str
    SecondaryStatus: str
    CreationTime: datetime
    LastModifiedTime: datetime
    SecondaryStatusTransitions: NotRequired[list[Transition]]
    TrainingJobArn: NotRequired[str]
    TrainingStartTime: NotRequired[datetime]
    TrainingEndTime: NotRequired[datetime]
    TrainingTimeInSeconds: NotRequired[int]
    BillableTimeInSeconds: NotRequired[int]
    FailureReason: NotRequired[str]
    Failure: NotRequired[dict[str, str]]
    """Local service: failure class and message, as in `training.contract.failures`."""
    FinalMetricDataList: NotRequired[list[dict[str, Any]]]
    ModelArtifacts: NotRequired[dict[str, str]]
    WarmPoolStatus: NotRequired[dict[str, str | int]]
    AlgorithmSpecification: NotRequired[Algorithm]
    RoleArn: NotRequired[str]
    HyperParameters: NotRequired[dict[str, str]]
    OutputDataConfig: NotRequired[dict[str, str]]
    ResourceConfig: NotRequired[Resources]
    StoppingCondition: NotRequired[dict[str, int]]
    BillableSecondsExact: NotRequired[float]
    """Local service: billed seconds, with fractions."""
    MachineLoadMetrics: NotRequired[dict[str, float]]
    """Local service: load of other processes, `machine/NAME` to value."""
    ModelFailure: NotRequired[str]
    """Local service: reason why no model was kept."""


TERMINAL_STATUSES = frozenset({"Completed", "Failed", "Stopped"})
QUEUE_STATUSES = frozenset({"Starting", "Pending", "LaunchingMLInstances", "PreparingTrainingStack"})
DOWNLOAD_STATUSES = frozenset({"Downloading", "DownloadingTrainingImage"})
BEFORE_TRAINING = QUEUE_STATUSES | DOWNLOAD_STATUSES
"""Secondary statuses in which a job does not write a log yet."""
INTERRUPTED_STATUSES = frozenset({"Interrupted", "Restarting"})
"""Secondary statuses of a spot job whose instances were reclaimed."""
INSTANCE_TYPES = "ml."
"""Start of SageMaker's instance types. The jobs of other services state what they wait for."""
GRACE_VARIABLE = "TRAINFARE_STOP_GRACE_SECONDS"
"""Variable of a job's environment with the seconds between SIGTERM and SIGKILL, where they can be changed."""
FIELDS_VARIABLE = "TRAINFARE_SERVICE_FIELDS"
"""Variable of a job's environment with the fields of its service's section, as JSON."""
OTHER_INSTANCE_PREFIX = re.compile(r"\[algo-\d+\] ")
"""Start of a log line from any instance except the first."""


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Everything that other rooms need to know about a service. They ask for a trait, never for a name."""

    name: str
    """Name in experiment files, options and the tag `platform.service`."""
    label: str
    """Name for people, within a sentence."""
    instance_type: str | None
    """Instance type of all jobs, in requests and records, up to a colon. None if each experiment chooses one."""
    machine_name: Callable[[Any, int], str] | None = None
    """Returns the instance type of a job with its details, from the fields of the section and the devices of a node."""
    machine_fields: tuple[str, ...]
    """Fields of an experiment's `machine` that have an effect here, and none on some other service."""
    section: str | None = None
    """Section of an experiment that only this service reads. Except for AWS, jobs get it in `FIELDS_VARIABLE`."""
    runs_here: bool
    """True if each job or endpoint runs on this one machine, whose cores and GPUs they share."""
    keeps_state_in_home: bool
    """True if jobs read the staged files themselves, and their logs and artifacts are in the state folder too. False if
    they read uploaded copies, and any machine can follow them."""
    runs_containers: bool
    """True if SageMaker's toolkit starts jobs in containers, which have no variables, packages or paths of this
    machine: packages are installed and secrets are read in the container, and arguments pass through a shell. The
    compilers `trcomp` and `trcomp-off` are in such containers."""
    streams_channels: bool
    """True if channels can be manifests, file systems or streams, which the service itself reads."""
    has_prices: bool
    """True if instances have a price, so that a budget can be in US dollars."""
    has_warm_pools: bool
    """True if instances can stay after a job, at a cost, for the next one."""
    may_lack_instances: bool
    """True if a job can fail because no instance is available. It is then started again later."""
    can_be_interrupted: bool
    """True if a job can be interrupted and started again, as on spot capacity."""
    lists_costs: bool
    """True if the list of jobs has their machines and billed seconds. False if each job must be described for that."""
    reads_aws: bool
    """True if the experiment's `aws` fields apply."""
    stop_grace_variable: str | None
    """Variable of a job's environment with the seconds between SIGTERM and SIGKILL. None if they cannot be changed."""


class Service(Protocol):
    """A service that runs jobs. Any process can make any call at any time."""

    traits: Traits
    name: str
    """`traits.name`."""
    pauses_seconds: tuple[float, float]
    """Shortest and longest pause between two queries of a job, in seconds. Pauses start short after a change and grow
    while nothing changes."""
    log_delay_seconds: float
    """Time within which a job's last log lines usually appear after its end, in seconds."""
    longest_delay_seconds: float
    """Longest time for which the end of a job's log and its billed seconds are awaited after its end, in seconds."""

    @property
    def jobs_command(self) -> str:
        """Command that lists and stops the jobs of this service."""

    def create(self, request: Request) -> None:
        """Start the job. If the name is taken, raises `JobExists` and changes nothing."""

    def describe(self, job_name: str) -> Description:
        """Return the current state of the job. Raises `JobNotFound`."""

    def stop(self, job_name: str) -> None:
        """Ask the job to stop: SIGTERM, then SIGKILL after 120 s. Does nothing to a job that has ended."""

    def logs(self, job_name: str, cursor: str | None = None) -> LogPage:
        """Return the log lines after `cursor`, or from the start."""

    def log_location(self, job_name: str) -> str:
        """Return the location of the log for a user: a path or a console URL."""

    def jobs(self, *, running_only: bool = False) -> list[Description]:
        """Return the jobs, newest first."""

    def fetch_output(self, job_name: str, filename: str) -> bytes | None:
        """Return a file from the job's output data folder, or None if it does not exist."""

    def open_model(self, uri: str) -> AbstractContextManager[BinaryIO]:
        """Open a model artifact (`tar.gz`) as a stream, by the URI in a description.

        Raises ArtifactError if it does not exist. Raises ServiceError for other errors, also while it is read.
        """


Echo = Callable[[str], None]
"""Prints a line."""
PriceOf = Callable[[str], Price | None]
"""Function from instance type to price; None if the price is unknown."""


@dataclass(frozen=True, kw_only=True)
class ServiceContext:
    """A service, with the steps that prepare a job for it."""

    service: Service
    check: Callable[[JobSpec], JobSpec]
    """Raises InputError for a job that cannot run there. Uploads nothing."""
    upload: Callable[[JobSpec], JobSpec]
    """Copies the inputs of a job to the service; returns the spec with their locations. Raises as `check` does."""
    price: PriceOf
    """Returns the price of an instance type, or None if unknown."""
    missing_bytes: Mapping[str, int] = field(default_factory=dict)
    """Size of each upload that a read-only context left out, by its URI."""
    missing_bucket: str | None = None
    """Bucket that a read-only context would have created."""


class Room(Protocol):
    """A service's declaration: the module `room.py` of its room. It imports the service only when it is opened."""

    TRAITS: Traits

    def open_context(self, section: Mapping[str, Any], echo: Echo, *, is_read_only: bool) -> ServiceContext:
        """Open the service with the fields that an experiment's section sets. Raises InputError, AccessError.

        A read-only context changes nothing: its `upload` returns the URIs of the uploads without making them.
        """

    def open_service(self) -> Service:
        """Return the service in the region and account of the environment. Raises AccessError, InputError."""

    def service_of(self, spec: JobSpec, group_id: str) -> Service:
        """Return the service on which a job of this group was planned.

        Raises AccessError or InputError if this user or this state folder cannot follow the job.
        """

    def prices(self, table: str | None, echo: Echo) -> PriceOf:
        """Return the prices in the user's file `table`, or else the service's."""


@dataclass(frozen=True)
class LogPage:
    """Log lines after a cursor."""

    lines: Sequence[str]
    """Complete lines without line ends. An incomplete last line comes with the next page. Lines from any instance
    except the first start with its name: `[algo-2] `."""
    cursor: str | None
    """Opaque position for the next call. An earlier cursor returns the same lines again. None means the start."""
    times: Sequence[float] = ()
    """Time at which each line was written, in seconds since the epoch, with fractions. Reading a line again
    returns the same time."""


def is_billed(description: Description) -> bool:
    """Return whether an ended job's billed seconds are known. A job that never started has none."""
    started = "TrainingStartTime" in description or description["TrainingJobStatus"] == "Completed"
    return "BillableTimeInSeconds" in description or not started


def billed_so_far(description: Description, at: datetime) -> float:
    """Return the billed seconds of one instance of a job that was described at a time.

    Without the final number, which may be rounded, they are a lower bound: waits for instances are not billed, and on
    spot capacity AWS bills a tenth or more (SageMaker Developer Guide, "Managed Spot Training": savings of up to 90 %).
    """
    if (billed := description.get("BillableTimeInSeconds")) is not None:
        return float(billed)
    if (started := description.get("TrainingStartTime")) is None:
        return 0.0
    until = end_of(description) if description["TrainingJobStatus"] in TERMINAL_STATUSES else at
    seconds = (until - started).total_seconds()
    for each in description.get("SecondaryStatusTransitions", []):
        if each["Status"] in QUEUE_STATUSES | INTERRUPTED_STATUSES:
            waited = min(each.get("EndTime", until), until) - max(each["StartTime"], started)
            seconds -= max(0.0, waited.total_seconds())
    share = 0.1 if description.get("EnableManagedSpotTraining") else 1.0
    return max(0.0, math.floor(share * seconds))


def end_of(description: Description) -> datetime:
    """Return the end of an ended job."""
    ended: datetime = description.get("TrainingEndTime") or description["LastModifiedTime"]
    return ended


def instance_type_of(description: Description) -> str:
    """Return the instance type of a job; of a job with instance groups, all types."""
    return " and ".join(instances_of(description.get("ResourceConfig", {})))


def instance_count(description: Description) -> int:
    """Return a job's number of instances."""
    return sum(instances_of(description.get("ResourceConfig", {})).values())


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A wait of a job that has been submitted."""

    reason: str
    """Resources that it waits for, such as `2 cores (0 of 2 free, used by demo-1)`."""
    since: datetime
    """Start of the first of the last transitions that all belong to the wait."""


def wait_of(description: Description) -> Wait | None:
    """Return the wait of a job, or None if it does not wait.

    A local job waits for cores and GPUs, and its message names them. A job at SageMaker waits for its instances.
    """
    status, resources = description["SecondaryStatus"], description.get("ResourceConfig", {})
    if status not in QUEUE_STATUSES | INTERRUPTED_STATUSES or description["TrainingJobStatus"] in TERMINAL_STATUSES:
        return None
    transitions = description.get("SecondaryStatusTransitions", [])
    message = str(transitions[-1].get("StatusMessage", "")) if transitions else ""
    if message.startswith("Waiting for "):
        reason = message.removeprefix("Waiting for ")
    elif not resources.get("InstanceType", INSTANCE_TYPES).startswith(INSTANCE_TYPES):
        return None  # it is about to start, or to look for a slot
    else:
        kind = "spot capacity of " if description.get("EnableManagedSpotTraining") else ""
        count = f"{number} x " if (number := instance_count(description)) > 1 else ""
        reason = f"{kind}{count}{instance_type_of(description)} ({': '.join(filter(None, (status, message)))})"
    since = description["CreationTime"]
    for transition in reversed(transitions):
        if transition["Status"] not in QUEUE_STATUSES | INTERRUPTED_STATUSES:
            break
        since = transition["StartTime"]
    return Wait(reason=reason, since=since)
