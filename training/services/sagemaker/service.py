"""SageMaker as a training service, called through boto3."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, BinaryIO, cast
from urllib.parse import urlparse

from training.contract.errors import ArtifactError, InputError, JobNotFound, ServiceError
from training.contract.job_spec import JOB_NAME_PATTERN
from training.contract.service import TERMINAL_STATUSES, Description, LogPage, Request
from training.services.sagemaker import cloudwatch
from training.services.sagemaker.aws_errors import translated
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.partitions import log_address

LIST_PAGE = 100
MAX_LISTED = 500
"""Limit on the number of listed jobs. An account may have thousands, and each page of 100 jobs is a call."""
MAX_OUTPUT_BYTES = 2**30
"""Size limit of an output archive that is read into memory."""


class SageMakerService:
    """Service for training jobs of one account and region. It has no state, so any process can use any job."""

    name = "sagemaker"
    pauses_seconds = (2.0, 15.0)
    log_delay_seconds = 15.0
    longest_delay_seconds = 600.0

    def __init__(self, clients: Clients | None = None) -> None:
        self._clients = clients or Clients()

    @property
    def region(self) -> str:
        """Region in which the jobs run."""
        return self._clients.region

    @property
    def jobs_command(self) -> str:
        """Command that lists and stops the jobs of this service."""
        return f"AWS_REGION={self.region} trainfare jobs --service sagemaker"

    def create(self, request: Request) -> None:
        """Start the job. Raises JobExists if the name is taken, or QuotaError, AccessError or InputError."""
        with self._translated(request["TrainingJobName"]):
            self._sagemaker.create_training_job(**request)

    def describe(self, job_name: str) -> Description:
        """Return the job's state now. Raises JobNotFound."""
        with self._translated(job_name):
            description: Description = self._sagemaker.describe_training_job(TrainingJobName=job_name)
        description.pop("ResponseMetadata", None)
        if not description["ModelArtifacts"]["S3ModelArtifacts"]:
            del description["ModelArtifacts"]
        return {"Environment": {}, "FinalMetricDataList": [], **description}

    def stop(self, job_name: str) -> None:
        """Stop the job: SIGTERM, then SIGKILL after 120 s of grace. Does nothing if the job has ended."""
        try:
            with self._translated(job_name):
                self._sagemaker.stop_training_job(TrainingJobName=job_name)
        except InputError:
            # The job is described only after an error, which saves a call for each running job.
            if self.describe(job_name)["TrainingJobStatus"] not in TERMINAL_STATUSES | {"Stopping"}:
                raise

    def logs(self, job_name: str, cursor: str | None = None) -> LogPage:
        """Return the log lines of all instances after `cursor`, or from the start, ordered by time."""
        _check_name(job_name)
        position = cloudwatch.read_cursor(cursor) if cursor else self._log_start(job_name)
        events = list(self._events(job_name, position))
        return cloudwatch.page(events, position)

    def log_location(self, job_name: str) -> str:
        """Return the location of the log: its address in the AWS console, where that is known."""
        _check_name(job_name)
        return log_address(self.region, cloudwatch.GROUP, f"{job_name}/")

    def jobs(self, *, running_only: bool = False) -> list[Description]:
        """Return the jobs, newest first, with the fields of the list: name, status and times."""
        selection = {"StatusEquals": "InProgress"} if running_only else {}
        order = {"SortBy": "CreationTime", "SortOrder": "Descending", "MaxResults": LIST_PAGE}
        with translated("jobs"):
            pages = self._sagemaker.get_paginator("list_training_jobs").paginate(
                **order, **selection, PaginationConfig={"MaxItems": MAX_LISTED}
            )
            return [_listed(summary) for page in pages for summary in page["TrainingJobSummaries"]]

    def fetch_output(self, job_name: str, filename: str) -> bytes | None:
        """Return the content of a file in the job's output data folder, or None if the file does not exist."""
        description = self.describe(job_name)
        uri = f"{description['OutputDataConfig']['S3OutputPath'].rstrip('/')}/{job_name}/output/output.tar.gz"
        archive = self._read(uri)
        if archive is None:
            return None
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            # With several instances the toolkit packs a folder for each; with one, the files are at the top level.
            for member in tar.getmembers():
                if member.isfile() and member.name.removeprefix("./").removeprefix("data/") == filename:
                    file = tar.extractfile(member)
                    return file.read() if file else None
        return None

    @contextmanager
    def open_model(self, uri: str) -> Iterator[BinaryIO]:
        """Open a model artifact in S3 as a stream."""
        location = urlparse(uri)
        if location.scheme != "s3":
            raise ArtifactError(f"The model artifact {uri} is not an S3 address.")
        s3 = self._clients.get("s3")
        with translated(uri):
            try:
                response = s3.get_object(Bucket=location.netloc, Key=location.path.lstrip("/"))
            except (s3.exceptions.NoSuchKey, s3.exceptions.NoSuchBucket) as error:
                raise ArtifactError(f"The model artifact {uri} does not exist.") from error
            with closing(response["Body"]) as body:
                yield cast(BinaryIO, body)

    @property
    def _sagemaker(self) -> Any:
        return self._clients.get("sagemaker")

    def _translated(self, job_name: str) -> Any:
        _check_name(job_name)
        return translated(f"Job {job_name}")

    def _log_start(self, job_name: str) -> cloudwatch.Cursor:
        """Return the cursor of the job's start: without a start time, CloudWatch searches the logs of all jobs."""
        try:
            created = self.describe(job_name)["CreationTime"]
        except JobNotFound:
            return cloudwatch.Cursor()  # a deleted job may still have a log
        return cloudwatch.first_cursor(created)

    def _events(self, job_name: str, cursor: cloudwatch.Cursor) -> Iterator[dict[str, Any]]:
        logs = self._clients.get("logs")
        query: dict[str, Any] = {
            "logGroupName": cloudwatch.GROUP,
            "logStreamNamePrefix": f"{job_name}/",
            "startTime": cursor.from_ms,
            "limit": cloudwatch.PAGE_EVENTS,
        }
        try:
            with translated(f"The log of job {job_name}"):
                for page in logs.get_paginator("filter_log_events").paginate(**query):
                    yield from page["events"]
        except JobNotFound:
            # The log group does not exist until the account's first job prints its first line.
            return

    def _read(self, uri: str) -> bytes | None:
        location, s3 = urlparse(uri), self._clients.get("s3")
        with translated(uri):
            try:
                response = s3.get_object(Bucket=location.netloc, Key=location.path.lstrip("/"))
            except s3.exceptions.NoSuchKey:
                return None
            if response["ContentLength"] > MAX_OUTPUT_BYTES:
                raise ServiceError(
                    f"{uri} is {response['ContentLength'] / 2**30:.1f} GiB; the limit for reading it is "
                    f"{MAX_OUTPUT_BYTES // 2**30} GiB."
                )
            return bytes(response["Body"].read())


def _check_name(job_name: str) -> None:
    """Raise JobNotFound for an invalid name, which as a prefix could match the log streams of other jobs."""
    if not re.fullmatch(JOB_NAME_PATTERN, job_name):
        raise JobNotFound(f"Job {job_name} does not exist at SageMaker: the name is not a valid job name.")


def _listed(summary: dict[str, Any]) -> Description:
    return {**summary, "SecondaryStatus": summary.get("SecondaryStatus", summary["TrainingJobStatus"])}
