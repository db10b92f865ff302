"""Follow a training job of the account that others started, or record one that has ended, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from experiments.imports.described_job import (
    ARN,
    HIDDEN,
    described_job,
    instance_type_of,
    likely_secrets,
    without_likely_secrets,
)
from experiments.running.attach_group import IMPORT_VERB
from experiments.running.fail_on import read_fail_on
from experiments.running.follow_group import follow
from experiments.running.job_costs import price_of
from experiments.running.output import print_line
from tracking.groups.group import open_group
from tracking.queries.job_tables import all_experiment_ids, quoted
from tracking.recording.recorder import Recorder, open_run
from tracking.server.store import Store, open_store
from training.contract.errors import InputError, JobNotFound
from training.contract.service import TERMINAL_STATUSES, Description, LogPage, Request
from training.services.sagemaker.clients import Clients, account_of
from training.services.sagemaker.service import SageMakerService

EXPERIMENT = "sagemaker-jobs"
"""MLflow experiment of imported jobs by default."""


class FollowedService(SageMakerService):
    """Service that starts and stops nothing, and hides likely secrets: hyperparameters of others may be tokens."""

    _secrets: tuple[str, ...] = ()
    """Likely secrets of the job. SageMaker's toolkit prints all hyperparameters."""

    def describe(self, job_name: str) -> Description:
        """Return the job's state now, without likely secrets. Raises JobNotFound."""
        description = super().describe(job_name)
        self._secrets = tuple(likely_secrets(description))
        return without_likely_secrets(description)

    def logs(self, job_name: str, cursor: str | None = None) -> LogPage:
        """Return the log lines after `cursor`, without the likely secrets of the job's description."""
        page = super().logs(job_name, cursor)
        lines = list(page.lines)
        for secret in self._secrets:
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

    def request_of(self, description: Description) -> Request:
        """Return the fields of a description that a request to create the job has."""
        shape = self._sagemaker.meta.service_model.operation_model("CreateTrainingJob").input_shape
        return {name: value for name, value in description.items() if name in shape.members}


def attach_job(fields: Mapping[str, str]) -> int:
    """Record the training job `--job NAME`, and report; return the exit code."""
    fail_on = read_fail_on(fields.get("fail-on", ""))
    name, clients = fields["job"], Clients(fields.get("region"))
    account_of(clients)  # fails immediately without credentials or network
    service = FollowedService(clients)
    try:
        description = service.describe(name)
    except JobNotFound as error:
        raise InputError(
            f"no training job {name} in region {service.region} of this account: check the name, --region, and the "
            "account of your credentials."
        ) from error
    store = open_store(echo=print_line)
    _refuse_recorded(store, name)
    key = "import-" + sha256(description["TrainingJobArn"].encode()).hexdigest()[:32]
    experiment = fields.get("experiment", EXPERIMENT)
    group = open_group(store, experiment_name=experiment, verb=IMPORT_VERB, key=key, joins=True)
    has_ended = description["TrainingJobStatus"] in TERMINAL_STATUSES
    print_line(f"{'Recording' if has_ended else 'Following'} training job {name}")
    lines = service.logs(name).lines if has_ended or "TrainingStartTime" in description else ()
    price = price_of("sagemaker", fields.get("prices"), print_line)(instance_type_of(description))
    job = described_job(description, price, lines[:200])
    run = open_run(store, group, job)
    if not (run.is_described or run.has_ended):
        recorder = Recorder(store, run.id, job)
        recorder.open(service.request_of(description))
        recorder.log_data()
    return follow(store, service, group, [job], 1, print_line, fail_on=fail_on)


def _refuse_recorded(store: Store, name: str) -> None:
    """Raise InputError if one of our own commands has started and recorded the job: it has its run already."""
    experiments = store.call(lambda: list(all_experiment_ids(store.client)))
    query = f'tags."platform.job_name" = {quoted(name)} and tags."platform.kind" = \'job\''
    for run in store.call(store.client.search_runs, experiments, query):
        if ARN not in run.data.tags:
            raise InputError(
                f"trainfare started job {name} and has a run for it, in group "
                f"{run.data.tags.get('platform.group')}: `trainfare attach --group` follows that group."
            )
