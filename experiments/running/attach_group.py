"""Follow a group that another command started, by the plan on the tracking server."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlparse

from experiments.running.fail_on import read_fail_on
from experiments.running.follow_group import follow, jobs_phrase
from experiments.running.output import print_line
from tracking.groups.group import Group, find_group
from tracking.groups.plan_file import read_plan
from tracking.groups.planned_job import PlannedJob
from tracking.server.store import Store, open_store
from training.contract.errors import AccessError, InputError
from training.contract.job_spec import JobSpec
from training.contract.service import Service
from training.services.local.container import SECRET_VARIABLES, local_path
from training.state.digests import damage
from training.state.home import home

IMPORT_VERB = "attach"
"""Verb of the groups of imported jobs."""


def attach(fields: Mapping[str, str], attach_import: Callable[[Mapping[str, str], Store, Group], int]) -> int:
    """Follow the group `--group ID` to its end, and start the jobs that its launcher did not start.

    `attach_import` follows a group of imported jobs, which has no plan.
    """
    group_id = fields.get("group")
    if group_id is None:
        raise InputError(
            "attach needs --group ID (the command that started the jobs printed it), --job NAME or --tuning-job NAME."
        )
    fail_on = read_fail_on(fields.get("fail-on", ""))
    store = open_store(echo=print_line)
    group = find_group(store, group_id=group_id, experiment_name="")
    if group.verb == "sweep":
        raise InputError(f"group {group.id} is a sweep: join it by running the same `sweep` command here.")
    if not group.is_open:
        raise InputError(f"group {group.id} has ended: `trainfare report --group {group.id}` shows its result.")
    if group.verb == IMPORT_VERB:
        return attach_import(fields, store, group)
    plan = read_plan(store, group)
    print_line(f"Resuming {group.id}: {jobs_phrase(plan.jobs, plan.design)}")
    service = _service(plan.jobs[0].spec, group.id)
    if service.name == "local":
        _check_inputs([each for job in plan.jobs for each in (job.spec.source_uri, *job.spec.channels.values())])
        check_secrets(plan.jobs, {job["TrainingJobName"] for job in service.jobs()}, os.environ)
    return follow(store, service, group, plan.jobs, plan.parallel, print_line, plan.design, fail_on)


def _service(spec: JobSpec, group_id: str) -> Service:
    if spec.region != "local":
        from training.services.sagemaker.clients import Clients
        from training.services.sagemaker.identity import account_of
        from training.services.sagemaker.service import SageMakerService

        clients = Clients(spec.region)
        _check_account(spec, group_id, account_of(clients))  # fails immediately without credentials or network
        return SageMakerService(clients)
    from training.services.local.service import LocalService

    if not Path(unquote(urlparse(spec.output_uri).path)).parent.is_relative_to(home()):
        raise InputError(
            f"group {group_id} writes to {urlparse(spec.output_uri).path}, which is not under {home()}: run attach on "
            "the machine where it was started, with the same TRAINFARE_HOME."
        )
    return LocalService(home())


def _check_account(spec: JobSpec, group_id: str, account: str) -> None:
    """Raise AccessError if the jobs ran in another account. SageMaker takes only roles of the job's own account."""
    owner = spec.role_arn.split(":")[4]
    if owner != account:
        raise AccessError(
            f"the jobs of group {group_id} belong to AWS account {owner}, but the credentials belong to account "
            f"{account}: set AWS_PROFILE to a profile of account {owner}. attach does not read aws.profile."
        )


def _check_inputs(uris: Sequence[str]) -> None:
    """Raise InputError if staged data or a script's copy is damaged: only the group's command can make it again."""
    for uri in sorted(set(uris)):
        if text := damage(local_path(uri)):
            raise InputError(f"{text}. Run the command that started the group again: it makes the files again.")


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
