"""The simulated training jobs of an account: creation, listing and stopping, within quotas."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from tests.support.aws.api import ApiError, Response
from tests.support.aws.job import JobFaults, TrainingJob
from tests.support.aws.logs import LogStream
from tests.support.aws.service_rules import machine_types
from training.contract.service import LogPage

AWS_REGISTRY = "763104351884"
NO_IMAGE = (
    "Cannot find repository: {repository} in registry ID: {registry} Please check if your ECR repository exists and "
    "role {role} has proper pull permissions for SageMaker: ecr:BatchCheckLayerAvailability, ecr:BatchGetImage, "
    "ecr:GetDownloadUrlForLayer"
)
NOT_ASSUMED = (
    "Could not assume role {role}. Please ensure that the role exists and allows principal 'sagemaker.amazonaws.com' "
    "to assume the role."
)

COMPILER_OUTPUT = ("Found configuration for Training Compiler", "Configuring SM Training Compiler...")
"""Lines that the Training Compiler's image prints before the program starts."""


class Jobs:
    """The account's training jobs."""

    def __init__(self, root: Path, account: str, clients: Mapping[str, Any]) -> None:
        self._root, self._account, self._clients = root, account, clients
        self._jobs: dict[str, TrainingJob] = {}
        self._gone: list[TrainingJob] = []
        self._lock = threading.Lock()
        self.quotas: dict[str, int] = {}
        """Quota of each instance type; types that are missing have no limit."""
        self.faults = JobFaults()

    def operations(self) -> dict[str, Any]:
        return {
            "CreateTrainingJob": self.create,
            "DescribeTrainingJob": lambda parameters: self._job(parameters).describe(),
            "StopTrainingJob": self.stop_one,
            "ListTrainingJobs": self.listed,
        }

    def create(self, request: Mapping[str, Any]) -> Response:
        name = request["TrainingJobName"]
        self._check(request)
        with self._lock:
            if name in self._jobs:
                raise ApiError("ResourceInUse", f"Training job names must be unique: {self._arn(name)} exists.")
            self._check_quota(request)
            self.end_pools(request)
            self._jobs[name] = TrainingJob(dict(request), self._root / "containers" / name, self._clients, self.faults)
        if _switches_compiler_on(request):
            page = LogPage(lines=COMPILER_OUTPUT, cursor="", times=[time.time()] * len(COMPILER_OUTPUT))
            LogStream(self._clients["logs"], f"{name}/image").put(page)
        self._jobs[name].start()
        return {"TrainingJobArn": self._arn(name)}

    def stop_one(self, parameters: Mapping[str, Any]) -> Response:
        job = self._job(parameters)
        if job.ended:
            status = job.describe()["TrainingJobStatus"]
            raise ApiError("ValidationException", f"The request was rejected: the training job is in status {status}.")
        return job.stop()

    def listed(self, parameters: Mapping[str, Any]) -> Response:
        status = parameters.get("StatusEquals")
        jobs = [job.describe() for job in list(self._jobs.values())]
        jobs = [each for each in jobs if status in {None, each["TrainingJobStatus"]}]
        jobs.sort(key=lambda each: each["CreationTime"], reverse=parameters.get("SortOrder") != "Ascending")
        first = int(parameters.get("NextToken", 0))
        last = first + int(parameters.get("MaxResults", 10))
        summaries = [
            {
                "TrainingJobArn": self._arn(each["TrainingJobName"]),
                **{name: each[name] for name in ("TrainingJobName", "TrainingJobStatus", "CreationTime")},
                **({"TrainingEndTime": each["TrainingEndTime"]} if "TrainingEndTime" in each else {}),
            }
            for each in jobs[first:last]
        ]
        more = {"NextToken": str(last)} if last < len(jobs) else {}
        return {"TrainingJobSummaries": summaries, **more}

    def describe(self, name: str) -> Response:
        return self._jobs[name].describe()

    def names(self) -> list[str]:
        return list(self._jobs)

    def end_pools(self, request: Mapping[str, Any] | None = None) -> None:
        """End every warm pool, or let the job of a request take those that match it."""
        for job in self._jobs.values():
            matches = request is None or job.request["ResourceConfig"] == request["ResourceConfig"]
            if job.ended and job.pool.ended is None and matches:
                job.pool.end(request["TrainingJobName"] if request else None)

    def vanish(self, name: str) -> None:
        """Forget the job: it no longer exists for any call."""
        with self._lock:
            self._gone.append(self._jobs.pop(name))

    def stop_all(self) -> None:
        """Stop all jobs and wait for them."""
        self.faults.grace_seconds = 0.1
        every = [*self._jobs.values(), *self._gone]
        for job in every:
            job.stop()
        for job in every:
            job.join()

    def request(self, name: str) -> dict[str, Any]:
        """Return the request of a job."""
        return self._jobs[name].request

    def container(self, name: str) -> Path:
        """Return the folder of a job's container."""
        return self._jobs[name].base

    def _job(self, parameters: Mapping[str, Any]) -> TrainingJob:
        job = self._jobs.get(parameters["TrainingJobName"])
        if job is None:
            raise ApiError("ValidationException", "Requested resource not found.")
        return job

    def _arn(self, name: str) -> str:
        return f"arn:aws:sagemaker:us-east-1:{self._account}:training-job/{name}"

    def _check(self, request: Mapping[str, Any]) -> None:
        if match := re.fullmatch(
            r"(\d{12})\.dkr\.ecr\.[^/]+/(.+):.+", request["AlgorithmSpecification"]["TrainingImage"]
        ):
            registry, repository = match.groups()
            if registry != AWS_REGISTRY:
                fields = {"repository": repository, "registry": registry, "role": request["RoleArn"]}
                raise ApiError("ValidationException", NO_IMAGE.format(**fields))
        try:
            self._clients["iam"].get_role(RoleName=request["RoleArn"].rpartition("/")[2])
        except ClientError as error:
            raise ApiError("ValidationException", NOT_ASSUMED.format(role=request["RoleArn"])) from error

    def _check_quota(self, request: Mapping[str, Any]) -> None:
        [kind, *_], count = machine_types(request), request["ResourceConfig"]["InstanceCount"]
        running = [job for job in self._jobs.values() if not job.ended and machine_types(job.request)[0] == kind]
        used = sum(job.request["ResourceConfig"]["InstanceCount"] for job in running)
        limit = self.quotas.get(kind)
        if limit is not None and used + count > limit:
            raise ApiError(
                "ResourceLimitExceeded",
                f"The account-level service limit '{kind} for training job usage' is {limit} Instances, with current "
                f"utilization of {used} Instances and a request delta of {count} Instances.",
            )


def _switches_compiler_on(request: Mapping[str, Any]) -> bool:
    return str(request["HyperParameters"].get("sagemaker_training_compiler_enabled")) == "true"
