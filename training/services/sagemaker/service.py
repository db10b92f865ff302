"""SageMaker as a training service, called through boto3, and the log of a job in CloudWatch, each line once.

CloudWatch may return events late, repeatedly, or out of order among streams. Therefore each page reads the last
`LATE_SECONDS` of the log again, and drops events whose id was read before. Events that arrive even later are read at
the end of the job, when the whole log is read again.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast
from urllib.parse import urlparse

from training.contract.errors import ArtifactError, InputError, JobNotFound
from training.contract.job_spec import JOB_NAME_PATTERN
from training.contract.service import TERMINAL_STATUSES, Description, LogPage, Request
from training.services.sagemaker.clients import Clients, partition_of, translated
from training.services.sagemaker.traits import TRAITS

LIST_PAGE = 100
MAX_LISTED = 500
"""Limit on the number of listed jobs. An account may have thousands, and each page of 100 jobs is a call."""
GROUP = "/aws/sagemaker/TrainingJobs"
LATE_SECONDS = 60
CLOCK_SECONDS = 3600
"""Most by which an instance's clock may be behind SageMaker's."""
PAGE_EVENTS = 10_000
"""Maximum number of events that FilterLogEvents returns per call."""

CONSOLES = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}
"""Host of the AWS console of partitions that have their own."""


class SageMakerService:
    """Service for training jobs of one account and region. It has no state, so any process can use any job."""

    traits, name = TRAITS, TRAITS.name
    pauses_seconds = (2.0, 15.0)
    log_delay_seconds = 15.0
    longest_delay_seconds = 600.0

    def __init__(self, clients: Clients | None = None) -> None:
        self._clients = clients or Clients()

    @property
    def region(self) -> str:
        return self._clients.region

    @property
    def jobs_command(self) -> str:
        return f"AWS_REGION={self.region} trainfare jobs --service {self.name}"

    def create(self, request: Request) -> None:
        self._call(request["TrainingJobName"], lambda: self._sagemaker.create_training_job(**request))

    def describe(self, job_name: str) -> Description:
        response = self._call(job_name, lambda: self._sagemaker.describe_training_job(TrainingJobName=job_name))
        response.pop("ResponseMetadata", None)
        if not response["ModelArtifacts"]["S3ModelArtifacts"]:
            del response["ModelArtifacts"]
        return cast(Description, response)

    def stop(self, job_name: str) -> None:
        try:
            self._call(job_name, lambda: self._sagemaker.stop_training_job(TrainingJobName=job_name))
        except InputError:
            # The job is described only after an error, which saves a call for each running job.
            if self.describe(job_name)["TrainingJobStatus"] not in TERMINAL_STATUSES | {"Stopping"}:
                raise

    def logs(self, job_name: str, cursor: str | None = None) -> LogPage:
        """Return the log lines of all instances after `cursor`, or from the start, ordered by time."""
        _check_name(job_name)
        position = read_cursor(cursor) if cursor else self._log_start(job_name)
        what = f"The log of job {job_name}"
        events = self._clients.with_credentials(what, lambda: list(self._events(job_name, position)))
        return log_page(events, position)

    def log_location(self, job_name: str) -> str:
        """Return the address of the log in the AWS console."""
        _check_name(job_name)
        return log_address(self.region, GROUP, f"{job_name}/")

    def jobs(self, *, running_only: bool = False) -> list[Description]:
        """Return the jobs, newest first, with the fields of the list: name, status and times."""
        selection = {"StatusEquals": "InProgress"} if running_only else {}
        order = {"SortBy": "CreationTime", "SortOrder": "Descending", "MaxResults": LIST_PAGE}
        with translated("jobs"):
            pages = self._sagemaker.get_paginator("list_training_jobs").paginate(
                **order, **selection, PaginationConfig={"MaxItems": MAX_LISTED}
            )
            summaries = [summary for page in pages for summary in page["TrainingJobSummaries"]]
        return [cast(Description, {"SecondaryStatus": each["TrainingJobStatus"], **each}) for each in summaries]

    def fetch_output(self, job_name: str, filename: str) -> bytes | None:
        description = self.describe(job_name)
        uri = f"{description['OutputDataConfig']['S3OutputPath'].rstrip('/')}/{job_name}/output/output.tar.gz"
        try:
            with self.open_model(uri) as archive, tarfile.open(fileobj=archive, mode="r|gz") as tar:
                # With several instances the toolkit packs a folder for each; with one, the files are at the top level.
                for member in tar:
                    if member.isfile() and member.name.removeprefix("./").removeprefix("data/") == filename:
                        file = tar.extractfile(member)
                        return file.read() if file else None
        except ArtifactError:
            pass
        return None

    @contextmanager
    def open_model(self, uri: str) -> Iterator[BinaryIO]:
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

    def _call(self, job_name: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the response to a call about a job. It waits for new credentials if they have expired."""
        _check_name(job_name)
        return self._clients.with_credentials(f"Job {job_name}", call)

    def _log_start(self, job_name: str) -> Cursor:
        """Return the cursor of the job's start: without a start time, CloudWatch searches the logs of all jobs."""
        try:
            created = self.describe(job_name)["CreationTime"]
        except JobNotFound:
            return Cursor()  # a deleted job may still have a log
        return Cursor(int(1000 * (created.timestamp() - CLOCK_SECONDS)))

    def _events(self, job_name: str, cursor: Cursor) -> Iterator[dict[str, Any]]:
        logs = self._clients.get("logs")
        query: dict[str, Any] = {
            "logGroupName": GROUP,
            "logStreamNamePrefix": f"{job_name}/",
            "startTime": cursor.from_ms,
            "limit": PAGE_EVENTS,
        }
        try:
            with translated(f"The log of job {job_name}"):
                for page in logs.get_paginator("filter_log_events").paginate(**query):
                    yield from page["events"]
        except JobNotFound:
            # The log group does not exist until the account's first job prints its first line.
            return


def _check_name(job_name: str) -> None:
    """Raise JobNotFound for an invalid name, which as a prefix could match the log streams of other jobs."""
    if not re.fullmatch(JOB_NAME_PATTERN, job_name):
        raise JobNotFound(f"Job {job_name} does not exist at SageMaker: the name is not a valid job name.")


@dataclass(frozen=True)
class Cursor:
    """Position up to which a log was read."""

    newest_ms: int = 0
    """Time of the newest event that was read, in milliseconds since the epoch."""
    recent_ids: frozenset[str] = frozenset()
    """Ids of events that were read and may be returned again."""

    @property
    def from_ms(self) -> int:
        """Time from which to request events, in milliseconds since the epoch."""
        return max(0, self.newest_ms - 1000 * LATE_SECONDS)

    def text(self) -> str:
        return json.dumps([self.newest_ms, sorted(self.recent_ids)])


def read_cursor(text: str | None) -> Cursor:
    """Return the cursor that `Cursor.text` wrote."""
    newest_ms, recent_ids = json.loads(text) if text else (0, [])
    return Cursor(newest_ms, frozenset(recent_ids))


def log_page(events: Sequence[Mapping[str, Any]], cursor: Cursor) -> LogPage:
    """Return the lines of those `events` that were not read before, ordered by time, with the new cursor."""
    fresh = {each["eventId"]: each for each in events if each["eventId"] not in cursor.recent_ids}
    # Ids are increasing numbers, so a shorter id is smaller.
    ordered = sorted(fresh.values(), key=lambda each: (each["timestamp"], len(each["eventId"]), each["eventId"]))
    newest_ms = max([cursor.newest_ms, *(each["timestamp"] for each in ordered)])
    after = Cursor(newest_ms)
    # Every event that may be returned again is among `events`, which start earlier than `after.from_ms`.
    recent_ids = {each["eventId"] for each in events if each["timestamp"] >= after.from_ms}
    lines, times = [], []
    for each in ordered:
        prefix = _instance_prefix(each.get("logStreamName", ""))
        for line in str(each["message"]).rstrip("\n").split("\n"):
            lines.append(prefix + line)
            times.append(each["timestamp"] / 1000)
    return LogPage(lines=lines, cursor=Cursor(newest_ms, frozenset(recent_ids)).text(), times=times)


def _instance_prefix(stream: str) -> str:
    """Return the prefix for lines of a stream `JOB/algo-2-TIME`: the instance's name, or "" for the first instance."""
    instance = stream.rpartition("/")[2].rpartition("-")[0]
    return "" if instance in {"", "algo-1"} else f"[{instance}] "


def log_address(region: str, group: str, stream_prefix: str = "") -> str:
    """Return the address of a log group in the AWS console.

    With a `stream_prefix`, the console shows only the streams whose names begin with it.
    """
    host = CONSOLES.get(partition_of(region), "console.aws.amazon.com")
    streams = f"$3FlogStreamNameFilter$3D{stream_prefix.replace('/', '$252F')}" if stream_prefix else ""
    return (
        f"https://{region}.{host}/cloudwatch/home?region={region}"
        f"#logsV2:log-groups/log-group/{group.replace('/', '$252F')}{streams}"
    )
