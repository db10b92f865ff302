"""The account's training jobs: created once, listed, stopped, within quotas."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from tests.support.aws.api import Answer, Refused
from tests.support.aws.job import TrainingJob, machine_types
from tests.support.aws.logstream import LogStream
from tests.support.aws.troubles import Troubles
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

COMPILER_SAYS = ("Found configuration for Training Compiler", "Configuring SM Training Compiler...")
"""What its image prints before the program starts."""


class Jobs:
    """The account's training jobs."""

    def __init__(self, root: Path, account: str, clients: Mapping[str, Any], instance_types: frozenset[str]) -> None:
        self._root, self._account, self._clients = root, account, clients
        self._instance_types = instance_types
        self._jobs: dict[str, TrainingJob] = {}
        self._gone: list[TrainingJob] = []
        self._lock = threading.Lock()
        self.quotas: dict[str, int] = {}
        """Machine type to how many the account may have; absent is no limit."""
        self.troubles = Troubles()

    def operations(self) -> dict[str, Any]:
        return {
            "CreateTrainingJob": self.create,
            "DescribeTrainingJob": lambda asked: self._job(asked).describe(),
            "StopTrainingJob": self.stop_one,
            "ListTrainingJobs": self.listed,
        }

    def create(self, request: Mapping[str, Any]) -> Answer:
        name = request["TrainingJobName"]
        self._check(request)
        with self._lock:
            if name in self._jobs:
                raise Refused("ResourceInUse", f"Training job names must be unique: {self._arn(name)} exists.")
            self._check_quota(request)
            self.end_pools(request)
            self._jobs[name] = TrainingJob(
                dict(request), self._root / "containers" / name, self._clients, self.troubles
            )
        if self.troubles.compiler_works and _switches_compiler_on(request):
            said = LogPage(lines=COMPILER_SAYS, cursor="", times=[time.time()] * len(COMPILER_SAYS))
            LogStream(self._clients["logs"], f"{name}/image").put(said)
        self._jobs[name].start()
        return {"TrainingJobArn": self._arn(name)}

    def stop_one(self, asked: Mapping[str, Any]) -> Answer:
        job = self._job(asked)
        if job.ended:
            status = job.describe()["TrainingJobStatus"]
            raise Refused("ValidationException", f"The request was rejected: the training job is in status {status}.")
        return job.stop()

    def listed(self, asked: Mapping[str, Any]) -> Answer:
        wanted = asked.get("StatusEquals")
        found = [job.describe() for job in list(self._jobs.values())]
        found = [each for each in found if wanted in {None, each["TrainingJobStatus"]}]
        found.sort(key=lambda each: each["CreationTime"], reverse=asked.get("SortOrder") != "Ascending")
        first = int(asked.get("NextToken", 0))
        last = first + int(asked.get("MaxResults", 10))
        summaries = [
            {
                "TrainingJobArn": self._arn(each["TrainingJobName"]),
                **{name: each[name] for name in ("TrainingJobName", "TrainingJobStatus", "CreationTime")},
                **({"TrainingEndTime": each["TrainingEndTime"]} if "TrainingEndTime" in each else {}),
            }
            for each in found[first:last]
        ]
        more = {"NextToken": str(last)} if last < len(found) else {}
        return {"TrainingJobSummaries": summaries, **more}

    def describe(self, name: str) -> Answer:
        return self._jobs[name].describe()

    def names(self) -> list[str]:
        return list(self._jobs)

    def end_pools(self, request: Mapping[str, Any] | None = None) -> None:
        """Have every kept machine go, or those that suit a request be taken by its job."""
        for job in self._jobs.values():
            suits = request is None or job.request["ResourceConfig"] == request["ResourceConfig"]
            if job.ended and job.pool.ended is None and suits:
                job.pool.end(request["TrainingJobName"] if request else None)

    def vanish(self, name: str) -> None:
        """Have nobody know the job any more."""
        with self._lock:
            self._gone.append(self._jobs.pop(name))

    def stop_all(self) -> None:
        """Leave nothing running."""
        self.troubles.grace_seconds = 0.1
        every = [*self._jobs.values(), *self._gone]
        for job in every:
            job.stop()
        for job in every:
            job.join()

    def request(self, name: str) -> dict[str, Any]:
        """What was asked for."""
        return self._jobs[name].request

    def container(self, name: str) -> Path:
        """Where the job's container lies."""
        return self._jobs[name].base

    def _job(self, asked: Mapping[str, Any]) -> TrainingJob:
        job = self._jobs.get(asked["TrainingJobName"])
        if job is None:
            raise Refused("ValidationException", "Requested resource not found.")
        return job

    def _arn(self, name: str) -> str:
        return f"arn:aws:sagemaker:us-east-1:{self._account}:training-job/{name}"

    def _check(self, request: Mapping[str, Any]) -> None:
        for each in machine_types(request):
            if each not in self._instance_types:
                raise Refused(
                    "ValidationException",
                    f"1 validation error detected: Value '{each}' at 'resourceConfig.instanceType' failed to satisfy "
                    f"constraint: Member must satisfy enum value set",
                )
        if found := re.fullmatch(
            r"(\d{12})\.dkr\.ecr\.[^/]+/(.+):.+", request["AlgorithmSpecification"]["TrainingImage"]
        ):
            registry, repository = found.groups()
            if registry != AWS_REGISTRY:
                told = {"repository": repository, "registry": registry, "role": request["RoleArn"]}
                raise Refused("ValidationException", NO_IMAGE.format(**told))
        try:
            self._clients["iam"].get_role(RoleName=request["RoleArn"].rpartition("/")[2])
        except ClientError as error:
            raise Refused("ValidationException", NOT_ASSUMED.format(role=request["RoleArn"])) from error

    def _check_quota(self, request: Mapping[str, Any]) -> None:
        [kind, *_], count = machine_types(request), request["ResourceConfig"]["InstanceCount"]
        running = [job for job in self._jobs.values() if not job.ended and machine_types(job.request)[0] == kind]
        used = sum(job.request["ResourceConfig"]["InstanceCount"] for job in running)
        limit = self.quotas.get(kind)
        if limit is not None and used + count > limit:
            raise Refused(
                "ResourceLimitExceeded",
                f"The account-level service limit '{kind} for training job usage' is {limit} Instances, with current "
                f"utilization of {used} Instances and a request delta of {count} Instances.",
            )


def _switches_compiler_on(request: Mapping[str, Any]) -> bool:
    return str(request["HyperParameters"].get("sagemaker_training_compiler_enabled")) == "true"
