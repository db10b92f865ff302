"""The verb `jobs prune`."""

from __future__ import annotations

import re

import click

from experiments.commands.verb import Verb
from training.contract.errors import InputError

EXAMPLES = (
    "trainfare jobs prune",
    "trainfare jobs prune --older-than 30d --yes",
    "trainfare jobs prune --group demo-261101-120000-ab12 --everything",
)
EPILOG = (
    "Folders that a running job, an open group or an open run may need are always kept. If the tracking server does "
    "not answer, nothing is deleted."
)
_UNIT_SECONDS = {"h": 3600.0, "d": 86_400.0}


@click.command("prune", cls=Verb, examples=EXAMPLES, epilog=EPILOG)
@click.option(
    "--everything",
    is_flag=True,
    help="Also delete the only copies of models and results: model artifacts that MLflow does not hold, checkpoints of "
    "trainings that did not complete, output and copies of scripts, and folders of jobs without a run.",
)
@click.option(
    "--older-than",
    metavar="AGE",
    default="7d",
    show_default=True,
    help="Only folders of at least this age in hours or days, such as 12h.",
)
@click.option("--group", metavar="ID", help="Only folders of this group's jobs.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@click.option("--what", hidden=True)
@click.option("--service", hidden=True)
@click.pass_context
def command(
    ctx: click.Context,
    everything: bool,
    older_than: str,
    group: str | None,
    yes: bool,
    what: str | None,
    service: str | None,
) -> int:
    """Delete old local state that no job or group needs.

    The command lists the folders that can be deleted and asks for confirmation. By default, only folders that can be
    recreated, or that MLflow has a copy of, are deleted.
    """
    if what is not None:
        raise InputError(
            "--what no longer exists: jobs prune keeps the only copies of models and results, unless --everything."
        )
    if (service := service or ctx.meta.get("jobs.service", "local")) != "local":
        raise InputError(f"--service is '{service}': jobs prune deletes only local state.")
    if group is not None and group.startswith("-"):
        raise InputError(f"--group is '{group}': it must be the id of a group.")
    from experiments.running.prune_state import PruneOptions, prune

    options = PruneOptions(everything=everything, older_than_seconds=_seconds(older_than), group=group)
    return prune(options, is_confirmed=yes)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"([0-9]{1,6})([hd])", text)
    if not match:
        raise InputError(f"--older-than is '{text}': it must be a number of hours or days, such as 12h or 7d.")
    return int(match[1]) * _UNIT_SECONDS[match[2]]
