"""Follow a group that another command started, by the plan on the tracking server, or a job that others started.

A job of the AWS account that trainfare did not start is recorded once.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from experiments.running.launch import follow, jobs_phrase
from experiments.running.options import read_fail_on
from experiments.running.output import confirm, has_terminal, print_line
from experiments.running.scheduler import run_jobs
from experiments.schema.overrides import printable
from state.digests import KEY_CHARACTERS, digest
from state.folders import damage
from state.home import home
from tracking.groups.group import find_group, open_group
from tracking.groups.plan_file import read_plan
from tracking.groups.planned_job import IMPORTED, DataSource, PlannedJob, ScriptPlan
from tracking.queries.job_tables import all_experiment_ids, tagged
from tracking.recording.recorder import Recorder, job_runs, open_run
from tracking.server.store import open_store
from training.contract.errors import InputError, JobNotFound
from training.contract.events import EVENT_PREFIX
from training.contract.job_spec import Compiler, JobSpec, MetricDefinition
from training.contract.plain_text import counted, is_likely_secret, likely_secret_texts
from training.contract.price import Price, mean_price
from training.contract.request import build, check_metric
from training.contract.service import (
    TERMINAL_STATUSES,
    Channel,
    Description,
    LogPage,
    Request,
    Service,
    instance_count,
    instance_type_of,
)
from training.scripts.runtime_description import command_line
from training.services.registry import SERVICES, service_name
from training.services.sagemaker import room
from training.services.sagemaker.clients import Clients, account_of
from training.services.sagemaker.service import SageMakerService
from training.services.supervision.container import SECRET_VARIABLES
from training.services.supervision.toolkit import decoded, local_path

IMPORT_VERB = "attach"
"""Verb of the groups of imported jobs."""


def attach(fields: Mapping[str, str], *, is_trusted: bool) -> int:
    """Follow the group `--group ID` to its end, and start the jobs that its launcher did not start.

    Of a group that has ended, only records that were missing are read: the end of a log, or billed seconds. Unless it
    `is_trusted`, the user is asked about a plan that no command of this state folder made, if jobs of it may start.
    """
    from experiments.running.push_model import push_of
    from experiments.running.write_report import report_group  # importing the charts takes long

    group_id = fields.get("group")
    if group_id is None:
        raise InputError("attach needs --group ID (the command that started the jobs printed it) or --job NAME.")
    fail_on = read_fail_on(fields)
    store = open_store(echo=print_line)
    group = find_group(store, group_id=group_id, experiment_name="")
    if group.verb == "sweep":
        raise InputError(f"group {group.id} is a sweep: join it by running the same `trainfare sweep` command here.")
    runs = {} if group.is_open else job_runs(store, group)
    incomplete = {name for name, run in runs.items() if run.is_incomplete}
    if not group.is_open and not incomplete:
        raise InputError(f"group {group.id} has ended: `trainfare report --group {group.id}` shows its result.")
    if group.verb == IMPORT_VERB:
        names = ", ".join(job_runs(store, group)) or "NAME"
        raise InputError(
            f"group {group.id} records what others started: `trainfare attach --job` continues one of its "
            f"jobs ({names})."
        )
    plan, is_own = read_plan(store, group, home())
    jobs = [job for job in plan.jobs if job.spec.name in incomplete] if incomplete else plan.jobs
    first = plan.jobs[0].spec
    service = SERVICES[service_name(first.instance_type)].service_of(first, group.id)
    startable = [] if is_own else [job.spec for job in jobs if _may_start(service, job.spec)]
    if startable:
        _show(startable, group.id)
        if not (is_trusted or has_terminal()):
            raise InputError(
                f"{_foreign(group_id)}. There is no terminal to ask: read above what it would start, and add --trust "
                "if you trust it."
            )
        if not (is_trusted or confirm("Start it?")):
            print_line("Nothing was started.")
            return 1
    if incomplete:
        print_line(f"Reading the missing records of {counted(len(jobs), 'job')} of {group.id}")
        run_jobs(store, service, group, jobs, parallel=len(jobs), echo=print_line)
        report_group(store, group, group.experiment_name)
        return 0
    for push in () if is_own or is_trusted else filter(None, map(push_of, jobs)):  # with this user's token
        raise InputError(
            f"{_foreign(group_id)}. It pushes its model to {push.repository}: add --trust if you trust it."
        )
    print_line(f"Resuming {group.id}: {jobs_phrase(plan.jobs, plan.design)}")
    if service.traits.keeps_state_in_home:
        for uri in sorted({each for job in jobs for each in (job.spec.source_uri, *job.spec.channels.values())}):
            if text := damage(local_path(uri)):
                raise InputError(f"{text}. Run the command that started the group again: it makes the files again.")
        check_secrets(plan.jobs, {job["TrainingJobName"] for job in service.jobs()}, os.environ)
    return follow(store, service, group, plan.jobs, plan.parallel, plan.design, fail_on)


def _may_start(service: Service, spec: JobSpec) -> bool:
    """Return whether a follower may start the job, or start it again because there were no instances for it."""
    try:
        description = service.describe(str(build(spec).get("TrainingJobName")))  # `spec.request` can change the name
    except JobNotFound:
        return True
    return (
        service.traits.may_lack_instances
        and bool(spec.capacity_retry_minutes)
        and "TrainingStartTime" not in description
    )


def _show(specs: Sequence[JobSpec], group_id: str) -> None:
    """Print what jobs would start with: text of the tracking server, no line of which can pass for one of ours."""
    print_line(f"{_foreign(group_id)}.")
    print_line(f"It would start {counted(len(specs), 'job')} with:")
    lines = list(dict.fromkeys(line for spec in specs for line in _settings(spec)))
    order = list(dict.fromkeys(name for name, _ in lines))
    for name, text in sorted(lines, key=lambda line: order.index(line[0])):
        print_line(f"  {name}: {printable(text)}")


def _foreign(group_id: str) -> str:
    return (
        f"No command that uses the state folder {home()} made the plan of group {group_id}: it comes from another "
        "machine, or somebody changed it"
    )


def _settings(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of everything that a job's start depends on."""
    yield "command", command_line(spec)
    yield "source", spec.source_uri
    yield "channels", ", ".join(map(" = ".join, spec.channels.items())) or "none"
    yield "variables", ", ".join(map(" = ".join, spec.environment.items())) or "none"
    shown = {"name", "program", "hyperparameters", "source_uri", "channels", "environment"}
    for name, value in spec.model_dump(mode="json", exclude=shown, exclude_defaults=True).items():
        yield name, value if isinstance(value, str) else json.dumps(value)


def check_secrets(jobs: Sequence[PlannedJob], started: set[str], variables: Mapping[str, str]) -> None:
    """Raise InputError if a script's job that is not `started` needs a secret that is not among the `variables`."""
    for job in jobs:
        if job.script is None or job.spec.name in started:
            continue
        for name in filter(None, job.spec.environment.get(SECRET_VARIABLES, "").split(",")):
            if not variables.get(name, "").strip():
                raise InputError(
                    f"jobs of this group have not started and need the environment variable {name}, a secret of their "
                    "script (script.secrets), which is not set. Set it and try again."
                )


EXPERIMENT = "sagemaker-jobs"
"""MLflow experiment of imported jobs by default."""


class FollowedService(SageMakerService):
    """Service that stops nothing, and hides likely secrets: hyperparameters of others may be tokens."""

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
    name, clients = fields["job"], Clients(fields.get("aws.region"))
    account_of(clients)  # fails immediately without credentials or network
    service = FollowedService(clients)
    try:
        description = service.describe(name)
    except JobNotFound as error:
        raise InputError(
            f"no training job {name} in region {service.region} of this account: check the name, --aws.region, and the "
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
    price = mean_price(description.get("ResourceConfig", {}), room.prices(fields.get("aws.prices"), print_line))
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
    values = decoded(description.get("HyperParameters", {}))
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
    entries = map(decoded, (description.get("HyperParameters", {}), description.get("Environment", {})))
    texts = {text for each in entries for name, value in each.items() for text in likely_secret_texts(name, value)}
    return sorted((text for text in texts if len(text) >= SHORTEST_SECRET), key=len, reverse=True)


def without_likely_secrets(description: Description) -> Description:
    def hidden(entries: Mapping[str, str]) -> dict[str, str]:
        values = decoded(entries)
        return {name: HIDDEN if is_likely_secret(name, values[name]) else text for name, text in entries.items()}

    return {
        **description,
        "HyperParameters": hidden(description.get("HyperParameters", {})),
        "Environment": hidden(description.get("Environment", {})),
    }


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
        name = re.sub(r"[^A-Za-z0-9_.:-]", "_", each["Name"])
        definition = MetricDefinition(name=name, regex=each["Regex"])
        try:
            check_metric(definition)
        except InputError:  # SageMaker accepts expressions that Python does not
            continue
        usable[definition.name] = definition.regex
    return usable
