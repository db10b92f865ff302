"""The verb `attach`: follow a group from its tracking server alone, on whatever machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

from experiments.running.follow_group import follow
from experiments.running.output import say
from tracking.groups.group import find_group
from tracking.groups.plan_file import read_plan
from tracking.server.store import open_store
from training.contract.errors import InputError, nearest
from training.contract.job_spec import JobSpec
from training.contract.service import Service
from training.state.home import home


def attach(given: Mapping[str, str]) -> int:
    """Follow the group `--group ID` to its end, and start what its launcher had not started yet."""
    fields = dict(given)
    group_id = fields.pop("group", None)
    for unknown in fields:
        raise InputError(f"unknown field '{unknown}' of attach: group.{nearest(unknown, ['group'])}")
    if group_id is None:
        raise InputError("attach needs --group ID: the command that started the jobs has told it.")
    store = open_store(say=say)
    group = find_group(store, group_id=group_id, experiment_name="")
    if group.verb == "sweep":
        raise InputError(f"group {group.id} is a sweep: the same `sweep` command, wherever it runs, joins it.")
    if not group.is_open:
        raise InputError(f"group {group.id} has ended: `report --group {group.id}` tells what it found.")
    plan = read_plan(store, group)
    say(f"Taking up {group.id}: {len(plan.jobs)} jobs")
    return follow(store, _service(plan.jobs[0].spec, group.id), group, plan.jobs, plan.parallel, say)


def _service(spec: JobSpec, group_id: str) -> Service:
    if spec.region != "local":
        from training.services.sagemaker.clients import Clients
        from training.services.sagemaker.identity import account_of
        from training.services.sagemaker.service import SageMakerService

        clients = Clients(spec.region)
        account_of(clients)  # whoever has no credentials, or no network, hears so at once
        return SageMakerService(clients)
    from training.services.local.service import LocalService

    if not Path(unquote(urlparse(spec.output_uri).path)).parent.is_relative_to(home()):
        raise InputError(
            f"group {group_id} runs under {urlparse(spec.output_uri).path}, not under {home()}: attach there."
        )
    return LocalService(home())
