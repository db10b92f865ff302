"""Follow a group that another command started, by the plan on the tracking server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence

from experiments.running.follow_group import follow, jobs_phrase
from experiments.running.options import read_fail_on
from experiments.running.output import confirm, has_terminal, print_line
from experiments.running.scheduler import run_jobs
from experiments.schema.messages import printable
from state.folders import damage
from state.home import home
from tracking.groups.group import find_group
from tracking.groups.plan_file import read_plan
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import job_runs
from tracking.server.store import open_store
from training.contract.errors import InputError, JobNotFound
from training.contract.job_spec import JobSpec
from training.contract.plain_text import counted
from training.contract.request import build
from training.contract.service import Service
from training.scripts.runtime_description import command_line
from training.services.local.container import SECRET_VARIABLES
from training.services.local.toolkit import local_path
from training.services.registry import SERVICES, service_name

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
    if not service.traits.uploads_inputs:
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
    yield "channels", _pairs(spec.channels)
    yield "variables", _pairs(spec.environment)
    shown = {"name", "program", "hyperparameters", "source_uri", "channels", "environment"}
    for name, value in spec.model_dump(mode="json", exclude=shown, exclude_defaults=True).items():
        yield name, value if isinstance(value, str) else json.dumps(value)


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "none"


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
