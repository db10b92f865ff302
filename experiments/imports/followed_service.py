"""SageMaker's service for jobs that others started: it can be read, and starts and stops nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from experiments.imports.described_job import HIDDEN, likely_secrets, without_likely_secrets
from training.contract.errors import InputError
from training.contract.service import Description, LogPage, Request
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.service import SageMakerService


class FollowedService(SageMakerService):
    """Service without descriptions that contain secrets: hyperparameters of other people's jobs may be tokens."""

    def __init__(self, clients: Clients) -> None:
        super().__init__(clients)
        self._secrets: dict[str, list[str]] = {}
        """Likely secrets of each job that was described: SageMaker's toolkit prints all hyperparameters."""

    def describe(self, job_name: str) -> Description:
        """Return the job's state now, without likely secrets. Raises JobNotFound."""
        description = super().describe(job_name)
        self._secrets[job_name] = likely_secrets(description)
        return without_likely_secrets(description)

    def logs(self, job_name: str, cursor: str | None = None) -> LogPage:
        """Return the log lines after `cursor`, without the likely secrets of the job's description."""
        page = super().logs(job_name, cursor)
        lines = list(page.lines)
        for secret in self._secrets.get(job_name, ()):
            lines = [line.replace(secret, HIDDEN) for line in lines]
        return replace(page, lines=lines)

    def create(self, request: Request) -> None:
        """Raise InputError: an import starts no job."""
        raise InputError(f"Job {request['TrainingJobName']} is only followed, and is not started here.")

    def stop(self, job_name: str) -> None:
        """Raise InputError. Only the owner of the job should stop it."""
        raise InputError(
            f"Job {job_name} was started by others and keeps running. Press Ctrl-C again to leave; "
            f"`{self.jobs_command} stop {job_name}` stops the job."
        )

    def jobs_of_tuning(self, name: str) -> list[dict[str, Any]]:
        """Return the summaries of the jobs of a tuning job, oldest first. Raises InputError if it does not exist."""
        sagemaker = self._sagemaker
        pages = sagemaker.get_paginator("list_training_jobs_for_hyper_parameter_tuning_job").paginate(
            HyperParameterTuningJobName=name, SortBy="CreationTime", SortOrder="Ascending"
        )
        with self._translated(name):
            return [summary for page in pages for summary in page["TrainingJobSummaries"]]

    def request_of(self, description: Description) -> Request:
        """Return the fields of a description that a request to create the job has."""
        shape = self._sagemaker.meta.service_model.operation_model("CreateTrainingJob").input_shape
        return {name: value for name, value in description.items() if name in shape.members}
