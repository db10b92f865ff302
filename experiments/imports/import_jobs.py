"""Follow training jobs of the account that others started, or record those that have ended, once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

from experiments.imports.described_job import ARN, described_job, final_metrics, instance_type_of
from experiments.imports.followed_service import FollowedService
from experiments.running.attach_group import IMPORT_VERB
from experiments.running.fail_on import read_fail_on
from experiments.running.follow_group import follow
from experiments.running.job_costs import PriceOf, price_of
from experiments.running.output import print_line
from reports.model.numbers import figure
from reports.model.wording import counted
from tracking.groups.group import Group, child_runs, open_group
from tracking.groups.planned_job import PlannedJob
from tracking.queries.job_tables import all_experiment_ids, quoted
from tracking.recording.recorder import Recorder, open_run
from tracking.server.store import Store, open_store
from training.contract.errors import InputError, JobNotFound
from training.contract.service import TERMINAL_STATUSES, Description
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.identity import account_of

EXPERIMENT = "sagemaker-jobs"
"""MLflow experiment of imported jobs by default."""
AT_ONCE = 100
"""Jobs that are followed at the same time: all jobs of most tuning jobs."""


@dataclass(frozen=True, kw_only=True)
class ForeignJob:
    """A training job of the account, with its place in its group."""

    description: Description
    label: str
    """Label of its arm: the tuned hyperparameters, or its name."""
    repeat: int = 0


def attach_jobs(fields: Mapping[str, str]) -> int:
    """Record the training job `--job NAME`, or all jobs of `--tuning-job NAME`, and report; return the exit code."""
    read_fail_on(fields.get("fail-on", ""))
    service = _service(fields.get("region"))
    jobs, subject = _jobs(service, fields)
    store = open_store(echo=print_line)
    _refuse_recorded(store, jobs)
    name = fields.get("experiment", EXPERIMENT)
    key = "import-" + sha256(subject.encode()).hexdigest()[:32]
    group = open_group(store, experiment_name=name, verb=IMPORT_VERB, key=key, joins=True)
    what = f"training job {fields['job']}" if "job" in fields else f"{counted(len(jobs), 'job')} of {subject}"
    return _follow(store, service, group, jobs, fields, what)


def attach_import(fields: Mapping[str, str], store: Store, group: Group) -> int:
    """Follow the jobs of an earlier import, of which the launcher has ended; return the exit code."""
    tags = [run.data.tags for run in child_runs(store, group).values()]
    if not tags:
        raise InputError(f"group {group.id} has recorded no job yet: run the `attach` command that opened it again.")
    service = _service(tags[0][ARN].split(":")[3])
    jobs = []
    for each in tags:
        with _existing(service, "training", each["platform.job_name"]):
            description = service.describe(each["platform.job_name"])
        jobs.append(
            ForeignJob(description=description, label=each["platform.arm"], repeat=int(each["platform.repeat"]))
        )
    return _follow(store, service, group, jobs, fields, f"{counted(len(jobs), 'job')} of {group.id}")


def _service(region: str | None) -> FollowedService:
    clients = Clients(region)
    account_of(clients)  # fails immediately without credentials or network
    return FollowedService(clients)


def _follow(
    store: Store,
    service: FollowedService,
    group: Group,
    jobs: Sequence[ForeignJob],
    fields: Mapping[str, str],
    what: str,
) -> int:
    print_line(f"{'Following' if _are_running(jobs) else 'Recording'} {what}")
    planned = _recorded(store, service, group, jobs, price_of("sagemaker", fields.get("prices"), print_line))
    fail_on = read_fail_on(fields.get("fail-on", ""))
    return follow(store, service, group, planned, AT_ONCE, print_line, fail_on=fail_on)


def _jobs(service: FollowedService, fields: Mapping[str, str]) -> tuple[list[ForeignJob], str]:
    """Return the jobs, and the ARN of the training job or the name of the tuning job to which they belong."""
    if "job" in fields:
        with _existing(service, "training", fields["job"]):
            description = service.describe(fields["job"])
        return [ForeignJob(description=description, label=fields["job"])], str(description["TrainingJobArn"])
    name = fields["tuning-job"]
    with _existing(service, "tuning", name):
        summaries = service.jobs_of_tuning(name)
    if not summaries:
        raise InputError(f"tuning job {name} has not started any training job yet: try again later.")
    jobs, repeats = list[ForeignJob](), dict[str, int]()
    for summary in summaries:
        label = tuned_label(summary.get("TunedHyperParameters", {})) or summary["TrainingJobName"]
        repeats[label] = repeats.get(label, -1) + 1
        description = service.describe(summary["TrainingJobName"])
        jobs.append(ForeignJob(description=description, label=label, repeat=repeats[label]))
    return jobs, f"tuning job {name}"


@contextmanager
def _existing(service: FollowedService, kind: str, name: str) -> Iterator[None]:
    """Turn the service's answer that there is no such job into an InputError."""
    try:
        yield
    except JobNotFound as error:
        raise InputError(
            f"no {kind} job {name} in region {service.region} of this account: check the name, --region, and the "
            "account of your credentials."
        ) from error


def tuned_label(values: Mapping[str, str]) -> str:
    """Return the tuned hyperparameters of a job as a label, such as `learning rate 3.1e-05, batch size 16`."""
    return ", ".join(f"{name.replace('_', ' ')} {_short(value)}" for name, value in sorted(values.items()))


def _short(text: str) -> str:
    text = text.strip('"')
    try:
        return figure(float(text)) if abs(float(text)) >= 0.01 or float(text) == 0 else f"{float(text):.3g}"
    except ValueError:
        return text


def _are_running(jobs: Sequence[ForeignJob]) -> bool:
    return any(job.description["TrainingJobStatus"] not in TERMINAL_STATUSES for job in jobs)


def _refuse_recorded(store: Store, jobs: Sequence[ForeignJob]) -> None:
    """Raise InputError if one of our own commands has started and recorded a job: it has its run already."""
    experiments = store.call(lambda: list(all_experiment_ids(store.client)))
    for job in jobs if len(jobs) == 1 else ():
        name = job.description["TrainingJobName"]
        query = f'tags."platform.job_name" = {quoted(name)} and tags."platform.kind" = \'job\''
        for run in store.call(store.client.search_runs, experiments, query):
            if ARN not in run.data.tags:
                raise InputError(
                    f"trainfare started job {name} and has a run for it, in group "
                    f"{run.data.tags.get('platform.group')}: `trainfare attach --group` follows that group."
                )


def _recorded(
    store: Store, service: FollowedService, group: Group, jobs: Sequence[ForeignJob], price_of: PriceOf
) -> list[PlannedJob]:
    """Open the run of each job that has none yet, and return all jobs."""
    planned = []
    for job in jobs:
        name = job.description["TrainingJobName"]
        has_log = job.description["TrainingJobStatus"] in TERMINAL_STATUSES or "TrainingStartTime" in job.description
        lines = service.logs(name).lines if has_log else ()
        each = described_job(
            job.description, job.label, job.repeat, price_of(instance_type_of(job.description)), lines[:200]
        )
        planned.append(each)
        run = open_run(store, group, each)
        if run.is_described or run.has_ended:
            continue
        recorder = Recorder(store, run.id, each)
        recorder.open(service.request_of(job.description))
        if not lines:
            recorder.log_values(final_metrics(job.description), time.time())  # the log of an old job may be deleted
        recorder.log_data()
    return planned
