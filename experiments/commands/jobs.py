"""Verbs of started jobs: `attach`, `report`, `ui`, and `jobs`, which lists and stops them and deletes old state."""

from __future__ import annotations

import re
from collections.abc import Mapping

import click

from experiments.commands.verb import (
    CONTEXT_SETTINGS,
    TRUST,
    FieldVerb,
    VerbGroup,
    experiment_field,
    fail_on_option,
    field,
    format_option,
)
from experiments.running.options import read_flag
from training.contract.errors import InputError
from training.services.registry import DEFAULT, SERVICES, traits_of


@click.command("attach", cls=FieldVerb, is_closed=True)
@field("group", "Group id, as printed by the command that started the jobs.", metavar="ID")
@field("job", "Training job of the AWS account that others started.", metavar="NAME")
@field("experiment", "MLflow experiment of --job.", metavar="NAME", default="sagemaker-jobs")
@field("aws.region", "AWS region of --job.", metavar="REGION")
@field("aws.prices", "Table of prices for --job, instead of AWS's price list.", metavar="FILE")
@field(
    TRUST,
    "Start the group's jobs without asking, even if the plan was made elsewhere. The plan is still shown.",
    is_flag=True,
)
@fail_on_option
def attach(fields: Mapping[str, str]) -> int:
    """Follow jobs that another command or person started.

    A group may have been started on another machine. If the group's plan was not made with this state folder, attach
    shows what would start and asks first. A training job of the AWS account that others started is recorded in MLflow
    once: its metrics, log, billable seconds and price.

    \b
    Examples:
      trainfare attach --group demo-261101-120000-ab12
      trainfare attach --job huggingface-pytorch-training-2026-11-01-12-00-00-000
    """
    if "group" in fields and "job" in fields:
        raise InputError("--group and --job cannot be combined: attach follows one of them.")
    if "job" in fields:
        from experiments.running.attach import attach_job

        return attach_job(fields)
    from experiments.running.attach import attach

    return attach(fields, is_trusted=read_flag(fields, TRUST))


@click.command("report", cls=FieldVerb, is_closed=True, formats=("text", "markdown", "json"))
@experiment_field("Experiment whose latest group is reported on.")
@field("group", "Report on the group of this id.", metavar="ID")
@field("runs", "Report on these run ids, job names and group ids, separated by commas.", metavar="NAMES")
@field("overview", "Report on all groups of an MLflow experiment and their cost.", is_flag=True)
@field("baseline", "Arm, job or run that the others are compared with.", metavar="NAME")
@field("allow", "Differences between the jobs' work to ignore, separated by commas.", metavar="KINDS")
@fail_on_option
def report(fields: Mapping[str, str]) -> int:
    """Report on tracked jobs: a group, or any runs.

    \b
    Examples:
      trainfare report
      trainfare report --group demo-261101-120000-ab12 --format markdown
      trainfare report --runs RUN_ID,JOB_NAME --baseline JOB_NAME
      trainfare report --experiment demo --overview
    """
    from experiments.running.write_report import report

    return report(fields)


@click.command("ui", cls=FieldVerb, is_closed=True)
@field("experiment", "Experiment to show. Default: the experiment of the latest command.", metavar="NAME")
def ui(fields: Mapping[str, str]) -> int:
    """Open MLflow's UI on the runs of an experiment.

    \b
    Examples:
      trainfare ui
      trainfare ui --experiment demo
    """
    from experiments.running.write_report import ui

    return ui(fields)


def _remember(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    # The options may stand before the verb or after it: `ctx.meta` is shared by both.
    if value is not None:
        ctx.meta[f"jobs.{param.name}"] = value


service_option = click.option(
    "--service",
    type=click.Choice(list(SERVICES)),
    expose_value=False,
    callback=_remember,
    help=f"Service of the jobs.  [default: {DEFAULT}]",
)
prices_option = click.option(
    "--aws.prices",
    "prices",
    metavar="FILE",
    expose_value=False,
    callback=_remember,
    help="Table of prices, instead of AWS's price list.",
)


def chosen_service(ctx: click.Context) -> str:
    """Return the service of the command."""
    return str(ctx.meta.get("jobs.service", DEFAULT))


@click.group("jobs", cls=VerbGroup, invoke_without_command=True, context_settings=CONTEXT_SETTINGS)
@service_option
@prices_option
@format_option
@click.pass_context
def jobs(ctx: click.Context) -> None:
    """List, stop and inspect jobs; delete unneeded local state.

    \b
    Examples:
      trainfare jobs
      trainfare jobs stop demo-261101-120000-ab12-none-a0r0
      trainfare jobs list --service sagemaker
      trainfare jobs prune --older-than 7d
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_jobs)


@jobs.command("list")
@service_option
@prices_option
@format_option
@click.pass_context
def list_jobs(ctx: click.Context) -> None:
    """List jobs, with the cost so far of running ones.

    \b
    Examples:
      trainfare jobs list
      trainfare jobs list --service sagemaker
    """
    from experiments.running.manage_jobs import print_jobs

    print_jobs(chosen_service(ctx), ctx.meta.get("jobs.prices"))


@jobs.command("stop")
@click.argument("name", required=False)
@click.option(
    "--group",
    metavar="ID",
    help="Stop all jobs of this group that run or wait for instances. A command that follows it starts the next ones.",
)
@service_option
@format_option
@click.pass_context
def stop(ctx: click.Context, name: str | None, group: str | None) -> int:
    """Stop a job or a group, and report each outcome.

    A job has 120 s to save its model. The command waits for that. A job that waits for instances at SageMaker starts no
    further attempt.

    \b
    Examples:
      trainfare jobs stop NAME
      trainfare jobs stop --group ID
    """
    from experiments.running.manage_jobs import stop

    if (name is None) == (group is None):
        raise InputError("jobs stop needs one job name, or --group ID.")
    return stop(chosen_service(ctx), name=name, group=group)


@jobs.command("log")
@click.argument("name")
@service_option
@format_option
@click.pass_context
def log(ctx: click.Context, name: str) -> None:
    """Print the log of a job.

    \b
    Examples:
      trainfare jobs log NAME
    """
    from experiments.running.manage_jobs import print_log

    print_log(chosen_service(ctx), name)


PRUNE_EPILOG = (
    "Folders that a running job, an open group or an open run may need are always kept. If the tracking server does "
    "not answer, nothing is deleted."
)


@jobs.command("prune", epilog=PRUNE_EPILOG)
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
@format_option
@click.pass_context
def prune(ctx: click.Context, everything: bool, older_than: str, group: str | None, yes: bool) -> int:
    """Delete old local state that no job or group needs.

    The command lists the folders that can be deleted and asks for confirmation. By default, only folders that can be
    recreated, or that MLflow has a copy of, are deleted.

    \b
    Examples:
      trainfare jobs prune
      trainfare jobs prune --older-than 30d --yes
      trainfare jobs prune --group demo-261101-120000-ab12 --everything
    """
    service = chosen_service(ctx)
    if not traits_of(service).runs_here:
        raise InputError(f"--service is '{service}': jobs prune deletes only local state.")
    from experiments.running.prune_state import PruneOptions, prune

    age = re.fullmatch(r"([0-9]{1,6})([hd])", older_than)
    if not age:
        raise InputError(f"--older-than is '{older_than}': it must be a number of hours or days, such as 12h or 7d.")
    seconds = int(age[1]) * {"h": 3600.0, "d": 86_400.0}[age[2]]
    options = PruneOptions(everything=everything, older_than_seconds=seconds, group=group)
    return prune(options, is_confirmed=yes)
