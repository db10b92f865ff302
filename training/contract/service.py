"""Protocol of a training service, and what its description of a job shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, Protocol

Request = dict[str, Any]
"""`CreateTrainingJob` request, in the form of boto3's `create_training_job(**request)`."""
Description = dict[str, Any]
"""`DescribeTrainingJob` response. Fields in use, with the names of SageMaker: TrainingJobName,
TrainingJobStatus (InProgress | Completed | Failed | Stopping | Stopped), SecondaryStatus,
SecondaryStatusTransitions [{Status, StartTime, EndTime?, StatusMessage}], CreationTime, TrainingStartTime?,
TrainingEndTime?, TrainingTimeInSeconds?, BillableTimeInSeconds?, FailureReason?, FinalMetricDataList,
ModelArtifacts {S3ModelArtifacts}?, HyperParameters, ResourceConfig, StoppingCondition, Environment.
Times are timezone-aware `datetime`s."""
TERMINAL_STATUSES = frozenset({"Completed", "Failed", "Stopped"})
QUEUE_STATUSES = frozenset({"Starting", "Pending", "LaunchingMLInstances", "PreparingTrainingStack"})
DOWNLOAD_STATUSES = frozenset({"Downloading", "DownloadingTrainingImage"})
BEFORE_TRAINING = QUEUE_STATUSES | DOWNLOAD_STATUSES
"""Secondary statuses in which a job does not write a log yet."""
INTERRUPTED_STATUSES = frozenset({"Interrupted", "Restarting"})
"""Secondary statuses of a spot job whose instances were reclaimed."""
OTHER_INSTANCE_PREFIX = re.compile(r"\[algo-\d+\] ")
"""Start of a log line from any instance except the first."""


class Service(Protocol):
    """A service that runs jobs. Any process can make any call at any time."""

    name: str
    """`local` or `sagemaker`."""
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


def end_of(description: Description) -> datetime:
    """Return the end of an ended job."""
    ended: datetime = description.get("TrainingEndTime") or description["LastModifiedTime"]
    return ended


def instance_count(description: Description) -> int:
    """Return a job's number of instances: the selected number, if the job allows several instance types, or the sum
    over the groups of a heterogeneous cluster."""
    resources = description.get("ResourceConfig", {})
    if groups := resources.get("InstanceGroups"):
        return sum(int(group["InstanceCount"]) for group in groups)
    return int(resources.get("SelectedInstanceCount", resources.get("InstanceCount", 1)))


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
    elif resources.get("InstanceType") == "local":
        return None  # it is about to start, or to look for a slot
    else:
        instance_type = resources.get("SelectedInstanceType") or resources.get("InstanceType") or "an instance"
        kind = "spot capacity of " if description.get("EnableManagedSpotTraining") else ""
        count = f"{number} x " if (number := instance_count(description)) > 1 else ""
        reason = f"{kind}{count}{instance_type} ({': '.join(filter(None, (status, message)))})"
    since = description["CreationTime"]
    for transition in reversed(transitions):
        if transition["Status"] not in QUEUE_STATUSES | INTERRUPTED_STATUSES:
            break
        since = transition["StartTime"]
    return Wait(reason=reason, since=since)
