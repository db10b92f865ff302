"""SageMaker as a training service: the same calls as on this machine, through boto3."""

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

LIST_PAGE = 100
MOST_LISTED = 500
"""An account may have had many thousands; each page of a hundred is a call."""
MOST_OUTPUT_BYTES = 2**30
"""An output archive larger than this is not looked into."""


class SageMakerService:
    """Training jobs of one account and region. Holds no state: any process may ask about any job."""

    name = "sagemaker"
    pauses_seconds = (2.0, 15.0)
    log_delay_seconds = 15.0

    def __init__(self, clients: Clients | None = None) -> None:
        self._clients = clients or Clients()

    @property
    def region(self) -> str:
        """The region where the jobs run."""
        return self._clients.region

    @property
    def jobs_command(self) -> str:
        """The command that lists and stops what runs there."""
        return f"AWS_REGION={self.region} python -m experiments jobs --service sagemaker"

    def create(self, request: Request) -> None:
        """Start the job. Raises JobExists when the name is taken, QuotaError, AccessError, InputError."""
        with self._asked(request["TrainingJobName"]):
            self._sagemaker.create_training_job(**request)

    def describe(self, job_name: str) -> Description:
        """Return the job's state now. Raises JobNotFound."""
        with self._asked(job_name):
            description: Description = self._sagemaker.describe_training_job(TrainingJobName=job_name)
        description.pop("ResponseMetadata", None)
        if not description["ModelArtifacts"]["S3ModelArtifacts"]:
            del description["ModelArtifacts"]
        return {"Environment": {}, "FinalMetricDataList": [], **description}

    def stop(self, job_name: str) -> None:
        """Ask the job to stop: SIGTERM, 120 s of grace, SIGKILL. Does nothing to a job that has ended."""
        try:
            with self._asked(job_name):
                self._sagemaker.stop_training_job(TrainingJobName=job_name)
        except InputError:
            # Asked only now: of hundreds that are to stop, hardly any has ended by itself.
            if self.describe(job_name)["TrainingJobStatus"] not in TERMINAL_STATUSES | {"Stopping"}:
                raise

    def logs(self, job_name: str, cursor: str | None = None) -> LogPage:
        """Return the log lines after `cursor`, or from the start; of all machines, in the order of their times."""
        _check_name(job_name)
        at = cloudwatch.read_cursor(cursor)
        events = list(self._events(job_name, at))
        return cloudwatch.page(events, at)

    def log_location(self, job_name: str) -> str:
        """Return the address of the log in the console."""
        _check_name(job_name)
        group = cloudwatch.GROUP.replace("/", "$252F")
        return (
            f"https://{self.region}.console.aws.amazon.com/cloudwatch/home?region={self.region}"
            f"#logsV2:log-groups/log-group/{group}$3FlogStreamNameFilter$3D{job_name}$252F"
        )

    def jobs(self, *, running_only: bool = False) -> list[Description]:
        """Return the jobs, newest first, as the list tells them: name, status and times."""
        wanted = {"StatusEquals": "InProgress"} if running_only else {}
        order = {"SortBy": "CreationTime", "SortOrder": "Descending", "MaxResults": LIST_PAGE}
        with translated("jobs"):
            pages = self._sagemaker.get_paginator("list_training_jobs").paginate(
                **order, **wanted, PaginationConfig={"MaxItems": MOST_LISTED}
            )
            return [_listed(summary) for page in pages for summary in page["TrainingJobSummaries"]]

    def fetch_output(self, job_name: str, filename: str) -> bytes | None:
        """Return a file that the job wrote to its output data folder, or None when there is none."""
        description = self.describe(job_name)
        uri = f"{description['OutputDataConfig']['S3OutputPath'].rstrip('/')}/{job_name}/output/output.tar.gz"
        archive = self._read(uri)
        if archive is None:
            return None
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            # Of several machines the toolkit keeps one folder each; one machine's files lie at the top.
            for member in tar.getmembers():
                if member.isfile() and member.name.removeprefix("./").removeprefix("data/") == filename:
                    file = tar.extractfile(member)
                    return file.read() if file else None
        return None

    @contextmanager
    def open_model(self, uri: str) -> Iterator[BinaryIO]:
        """Open a model artifact in S3, of which no more is in memory than what is being read."""
        place = urlparse(uri)
        if place.scheme != "s3":
            raise ArtifactError(f"The model artifact {uri} is not in S3.")
        s3 = self._clients.get("s3")
        with translated(uri):
            try:
                answer = s3.get_object(Bucket=place.netloc, Key=place.path.lstrip("/"))
            except (s3.exceptions.NoSuchKey, s3.exceptions.NoSuchBucket) as error:
                raise ArtifactError(f"The model artifact {uri} does not exist.") from error
            with closing(answer["Body"]) as body:
                yield cast(BinaryIO, body)

    @property
    def _sagemaker(self) -> Any:
        return self._clients.get("sagemaker")

    def _asked(self, job_name: str) -> Any:
        _check_name(job_name)
        return translated(f"Job {job_name}")

    def _events(self, job_name: str, cursor: cloudwatch.Cursor) -> Iterator[dict[str, Any]]:
        logs = self._clients.get("logs")
        wanted: dict[str, Any] = {
            "logGroupName": cloudwatch.GROUP,
            "logStreamNamePrefix": f"{job_name}/",
            "startTime": cursor.from_ms,
            "limit": cloudwatch.PAGE_EVENTS,
        }
        try:
            with translated(f"The log of job {job_name}"):
                for page in logs.get_paginator("filter_log_events").paginate(**wanted):
                    yield from page["events"]
        except JobNotFound:
            # The account's first job: the group comes with its first line.
            return

    def _read(self, uri: str) -> bytes | None:
        place = urlparse(uri)
        s3, where = self._clients.get("s3"), {"Bucket": place.netloc, "Key": place.path.lstrip("/")}
        with translated(uri):
            try:
                answer = s3.get_object(**where)
            except s3.exceptions.NoSuchKey:
                return None
            if answer["ContentLength"] > MOST_OUTPUT_BYTES:
                raise ServiceError(f"{uri} has {answer['ContentLength'] / 2**30:.1f} GiB: too much to look into.")
            return bytes(answer["Body"].read())


def _check_name(job_name: str) -> None:
    """A name that no job can have is not worth a call, and could reach beyond the job in a prefix of streams."""
    if not re.fullmatch(JOB_NAME_PATTERN, job_name):
        raise JobNotFound(f"Job {job_name} does not exist at SageMaker: no job can be called that.")


def _listed(summary: dict[str, Any]) -> Description:
    return {**summary, "SecondaryStatus": summary.get("SecondaryStatus", summary["TrainingJobStatus"])}
