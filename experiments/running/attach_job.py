"""Follow a training job of the account that others started, or record one that has ended, once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from experiments.running.attach_group import IMPORT_VERB
from experiments.running.follow_group import follow
from experiments.running.options import read_fail_on
from experiments.running.output import print_line
from state.digests import KEY_CHARACTERS, digest
from tracking.groups.group import open_group
from tracking.groups.planned_job import IMPORTED, DataSource, PlannedJob, ScriptPlan
from tracking.queries.job_tables import all_experiment_ids, tagged
from tracking.recording.recorder import Recorder, open_run
from tracking.server.store import open_store
from training.contract.errors import InputError, JobNotFound
from training.contract.events import EVENT_PREFIX
from training.contract.job_spec import JobSpec, MetricDefinition
from training.contract.plain_text import is_likely_secret, likely_secret_texts
from training.contract.price import Price
from training.contract.request import check_metric
from training.contract.service import TERMINAL_STATUSES, Channel, Description, LogPage, Request, instance_count
from training.job.settings.declared import Compiler
from training.services.sagemaker import room
from training.services.sagemaker.clients import Clients, account_of
from training.services.sagemaker.service import SageMakerService

EXPERIMENT = "sagemaker-jobs"
"""MLflow experiment of imported jobs by default."""


class FollowedService(SageMakerService):
    """Service that starts and stops nothing, and hides likely secrets: hyperparameters of others may be tokens."""

    _secrets: tuple[str, ...] = ()
    """Likely secrets of the job. SageMaker's toolkit prints all hyperparameters."""

    def describe(self, job_name: str) -> Description:
        description = super().describe(job_name)
        self._secrets = tuple(likely_secrets(description))
        return without_likely_secrets(description)

    def logs(self, job_name: str, cursor: str | None = None) -> LogPage:
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
        return cast(Request, {name: value for name, value in description.items() if name in shape.members})


def attach_job(fields: Mapping[str, str]) -> int:
    """Record the training job `--job NAME`, and report; return the exit code."""
    fail_on = read_fail_on(fields)
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
    experiments = store.call(all_experiment_ids, store.client)
    for run in store.call(store.client.search_runs, experiments, tagged(kind="job", job_name=name)):
        if ARN not in run.data.tags:
            raise InputError(
                f"trainfare started job {name} and has a run for it, in group "
                f"{run.data.tags.get('platform.group')}: `trainfare attach --group` follows that group."
            )
    key = f"import-{digest(description['TrainingJobArn'], KEY_CHARACTERS)}"
    experiment = fields.get("experiment", EXPERIMENT)
    group = open_group(store, experiment_name=experiment, verb=IMPORT_VERB, key=key, joins=True)
    has_ended = description["TrainingJobStatus"] in TERMINAL_STATUSES
    print_line(f"{'Recording' if has_ended else 'Following'} training job {name}")
    lines = service.logs(name).lines if has_ended or "TrainingStartTime" in description else ()
    price = room.prices(fields.get("prices"), print_line)(instance_type_of(description))
    job = described_job(description, price, lines[:200])
    recorded = open_run(store, group, job)
    if not (recorded.is_described or recorded.has_ended):
        recorder = Recorder(store, recorded.id, job)
        recorder.open(service.request_of(description))
        recorder.log_data()
    return follow(store, service, group, [job], 1, fail_on=fail_on)


HIDDEN = "(hidden: it looks like a secret)"
ARN = "platform.job_arn"
"""Tag of an imported run with the ARN of its job."""
SHORTEST_SECRET = 6
"""Characters of the shortest secret that is hidden in a log."""
SOURCE_CHANNELS = frozenset({"code", "sm_drivers"})
"""Channels in which SageMaker's SDK sends a source. Their addresses contain the name of the job."""
TOOLKIT_PREFIX = "sagemaker_"
"""Beginning of the hyperparameters that belong to the toolkit and not to the script."""


def described_job(description: Description, price: Price | None, first_lines: Sequence[str]) -> PlannedJob:
    """Return the plan to record a job. `description` is without secrets; see `without_likely_secrets`.

    `first_lines` of its log show whether it is a job of ours, which emits events. The metrics of any other job are read
    by its own definitions.
    """
    values = {name: _decoded(text) for name, text in description.get("HyperParameters", {}).items()}
    is_ours = any(line.startswith(EVENT_PREFIX) for line in first_lines)
    spec = _spec(description, values)
    data = {name: uri for name, uri in spec.channels.items() if name not in SOURCE_CHANNELS}
    uris = list(data.values())
    source = ", ".join(uris) or "none"
    script = ScriptPlan(regexes=_expressions(description), hyperparameters=spec.hyperparameters)
    return PlannedJob(
        spec=spec,
        arm=spec.name,
        repeat=0,
        is_baseline=False,
        experiment_yaml="",
        data=DataSource(
            name=uris[0] if uris else "no channels",
            source=source,
            digest=digest(source, 16),
            rows={},
        ),
        data_key=digest(json.dumps(sorted(data.items())), 16),
        price=price,
        script=None if is_ours else script,
        tags={"platform.role": IMPORTED, ARN: str(description["TrainingJobArn"])},
    )


def likely_secrets(description: Description) -> list[str]:
    """Return the texts in hyperparameters and variables that look like secrets, the longest first.

    Shorter ones than `SHORTEST_SECRET` are left out: they would also be parts of harmless lines.
    """
    entries = [*description.get("HyperParameters", {}).items(), *description.get("Environment", {}).items()]
    texts = {text for name, value in entries for text in likely_secret_texts(name, _decoded(value))}
    return sorted((text for text in texts if len(text) >= SHORTEST_SECRET), key=len, reverse=True)


def without_likely_secrets(description: Description) -> Description:
    """Return the description with a placeholder for each likely secret."""

    def hidden(entries: Mapping[str, str]) -> dict[str, str]:
        return {name: HIDDEN if is_likely_secret(name, _decoded(text)) else text for name, text in entries.items()}

    return {
        **description,
        "HyperParameters": hidden(description.get("HyperParameters", {})),
        "Environment": hidden(description.get("Environment", {})),
    }


def instance_type_of(description: Description) -> str:
    """Return the instance type of a job: the selected one, if the job allows several."""
    resources = description.get("ResourceConfig", {})
    if chosen := resources.get("SelectedInstanceType") or resources.get("InstanceType"):
        return chosen
    groups = resources.get("InstanceGroups")
    return groups[0]["InstanceType"] if groups else "unknown"


def _spec(description: Description, values: Mapping[str, Any]) -> JobSpec:
    algorithm, stopping = description["AlgorithmSpecification"], description.get("StoppingCondition", {})
    kept = {name: value for name, value in values.items() if not name.startswith(TOOLKIT_PREFIX)}
    return JobSpec(
        name=description["TrainingJobName"],
        compiler=_compiler(values),
        hyperparameters=kept,
        channels={each["ChannelName"]: _channel_uri(each) for each in description.get("InputDataConfig", [])},
        source_uri=str(values.get("sagemaker_submit_directory", "")),
        program=str(values.get("sagemaker_program", "")),
        output_uri=description["OutputDataConfig"]["S3OutputPath"],
        image=algorithm.get("TrainingImage") or algorithm.get("AlgorithmName", "unknown"),
        role_arn=description["RoleArn"],
        region=description["TrainingJobArn"].split(":")[3],
        instance_type=instance_type_of(description),
        instance_count=max(1, instance_count(description)),
        spot=bool(description.get("EnableManagedSpotTraining")),
        max_run_seconds=int(stopping.get("MaxRuntimeInSeconds", 86_400)),
        environment=description.get("Environment", {}),
        capacity_retry_minutes=(),  # an import starts nothing
    )


def _decoded(text: str) -> Any:
    """Return a hyperparameter's value. SDK v2 encodes values as JSON; other senders pass plain text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _compiler(values: Mapping[str, Any]) -> Compiler:
    enabled = values.get("sagemaker_training_compiler_enabled")
    return "none" if enabled is None else "trcomp" if enabled in (True, "true") else "trcomp-off"


def _channel_uri(channel: Channel) -> str:
    source = channel["DataSource"]
    if files := source.get("FileSystemDataSource"):
        return f"{files['FileSystemType'].lower()}://{files['FileSystemId']}{files['DirectoryPath']}"
    return source["S3DataSource"]["S3Uri"] if "S3DataSource" in source else ""


def _expressions(description: Description) -> dict[str, str]:
    """Return the job's metric definitions that can be used, by a name that MLflow accepts."""
    usable = {}
    for each in description["AlgorithmSpecification"].get("MetricDefinitions", []):
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", each["Name"])  # as ours are written: `train:loss` is `train_loss`
        definition = MetricDefinition(name=name, regex=each["Regex"])
        try:
            check_metric(definition)
        except InputError:  # SageMaker accepts expressions that Python does not
            continue
        usable[definition.name] = definition.regex
    return usable
