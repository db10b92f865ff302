"""The calls that the launcher knows, whatever stands behind them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

Request = dict[str, Any]
"""A `CreateTrainingJob` request, as boto3's `create_training_job(**request)` takes it."""

Description = dict[str, Any]
"""A `DescribeTrainingJob` response. Fields in use, spelt as SageMaker spells them: TrainingJobName,
TrainingJobStatus (InProgress | Completed | Failed | Stopping | Stopped), SecondaryStatus,
SecondaryStatusTransitions [{Status, StartTime, EndTime?, StatusMessage}], CreationTime, TrainingStartTime?,
TrainingEndTime?, TrainingTimeInSeconds?, BillableTimeInSeconds?, FailureReason?, FinalMetricDataList,
ModelArtifacts {S3ModelArtifacts}?, HyperParameters, ResourceConfig, StoppingCondition, Environment.
Times are timezone-aware `datetime`s."""


def instance_count(description: Description) -> int:
    """Return the number of instances of a job, as selected where the job could take several instance types."""
    resources = description.get("ResourceConfig", {})
    return int(resources.get("SelectedInstanceCount", resources.get("InstanceCount", 1)))


TERMINAL_STATUSES = frozenset({"Completed", "Failed", "Stopped"})
QUEUE_STATUSES = frozenset({"Starting", "Pending", "LaunchingMLInstances", "PreparingTrainingStack"})
DOWNLOAD_STATUSES = frozenset({"Downloading", "DownloadingTrainingImage"})
BEFORE_TRAINING = QUEUE_STATUSES | DOWNLOAD_STATUSES
"""Secondary statuses in which a job writes no log."""


OTHER_MACHINE = re.compile(r"\[algo-\d+\] ")
"""How a line of another machine than the first begins."""


@dataclass(frozen=True)
class LogPage:
    """Log lines after a cursor."""

    lines: Sequence[str]
    """Whole lines, without their line ends; a line still being written is left for the next page. Those of another
    machine than the first begin with its name: `[algo-2] `."""
    cursor: str | None
    """Opaque; pass it back to read on. Reading again from an older one gives the same lines again; None: the start."""
    times: Sequence[float] = ()
    """When each line was written, seconds since the epoch, to a fraction of a second; the same at each reading."""


class Service(Protocol):
    """A place where jobs run. Every call may be made from any process on any day."""

    name: str
    """`local` or `sagemaker`."""
    pauses_seconds: tuple[float, float]
    """Between two looks at a job: after something new, and the longest while nothing is."""
    log_delay_seconds: float
    """How long after a job's end its last lines may still come."""

    @property
    def jobs_command(self) -> str:
        """The command that lists and stops what runs there."""

    def create(self, request: Request) -> None:
        """Start the job. Raises `JobExists` when the name is taken, and then changes nothing."""

    def describe(self, job_name: str) -> Description:
        """Return the job's state now. Raises `JobNotFound`."""

    def stop(self, job_name: str) -> None:
        """Ask the job to stop: SIGTERM, 120 s of grace, SIGKILL. Does nothing to a job that has ended."""

    def logs(self, job_name: str, cursor: str | None = None) -> LogPage:
        """Return the log lines after `cursor`, or from the start."""

    def log_location(self, job_name: str) -> str:
        """Return where a person finds the log: a path or a console address."""

    def jobs(self, *, running_only: bool = False) -> list[Description]:
        """Return the jobs, newest first."""

    def fetch_output(self, job_name: str, filename: str) -> bytes | None:
        """Return a file that the job wrote to its output data folder, or None when there is none."""

    def open_model(self, uri: str) -> AbstractContextManager[BinaryIO]:
        """Open a model artifact, a `tar.gz`, by the address that a description told, to be read as a stream.

        Raises ArtifactError where there is none, and ServiceError, also while it is read.
        """
