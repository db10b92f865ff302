"""The verb `jobs`: list and stop jobs, print their logs, and delete local state that is no longer needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from experiments.commands.prune import command as prune
from experiments.commands.verb import CONTEXT_SETTINGS, Verb
from experiments.commands.verb_group import VerbGroup
from training.contract.errors import InputError

SERVICES = ("local", "sagemaker")
Function = TypeVar("Function", bound=Callable[..., Any])


def _remember(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    # The options may stand before the verb or after it: `ctx.meta` is shared by both.
    if value is not None:
        ctx.meta[f"jobs.{param.name}"] = value


def service_option(function: Function) -> Function:
    """Declare `--service`, for `jobs` and for each of its verbs."""
    return click.option(
        "--service",
        type=click.Choice(SERVICES),
        expose_value=False,
        callback=_remember,
        help="Service of the jobs.  [default: local]",
    )(function)


def prices_option(function: Function) -> Function:
    """Declare `--prices`."""
    return click.option(
        "--prices",
        metavar="FILE",
        expose_value=False,
        callback=_remember,
        help="Table of prices, instead of AWS's price list.",
    )(function)


def chosen_service(ctx: click.Context) -> str:
    """Return the service of the command, by default `local`."""
    return str(ctx.meta.get("jobs.service", "local"))


@click.group(cls=VerbGroup, invoke_without_command=True, context_settings=CONTEXT_SETTINGS)
@service_option
@prices_option
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, stop and inspect jobs; delete unneeded local state.

    \b
    Examples:
      trainfare jobs
      trainfare jobs stop demo-261101-120000-ab12-none-a0r0
      trainfare jobs list --service sagemaker
      trainfare jobs prune --older-than 7d
    """
    if ctx.invoked_subcommand is None:
        with list_jobs.make_context("list", [], parent=ctx) as list_context:
            list_jobs.invoke(list_context)


@command.command("list", cls=Verb, examples=("trainfare jobs list", "trainfare jobs list --service sagemaker"))
@service_option
@prices_option
@click.pass_context
def list_jobs(ctx: click.Context) -> None:
    """List jobs, with the cost so far of those that are running."""
    from experiments.running.manage_jobs import print_jobs

    print_jobs(chosen_service(ctx), ctx.meta.get("jobs.prices"))


@command.command("stop", cls=Verb, examples=("trainfare jobs stop NAME", "trainfare jobs stop --group ID"))
@click.argument("name", required=False)
@click.option(
    "--group",
    metavar="ID",
    help="Stop all jobs of this group that run or wait for instances. A command that follows it starts the next ones.",
)
@service_option
@click.pass_context
def stop(ctx: click.Context, name: str | None, group: str | None) -> int:
    """Stop a job or a group, and report each outcome.

    A job has 120 s to save its model. The command waits for that. A job that waits for instances at SageMaker starts no
    further attempt.
    """
    from experiments.running.manage_jobs import stop

    if (name is None) == (group is None):
        raise InputError("jobs stop needs one job name, or --group ID.")
    return stop(chosen_service(ctx), name=name, group=group)


@command.command("log", cls=Verb, examples=("trainfare jobs log NAME",))
@click.argument("name")
@service_option
@click.pass_context
def log(ctx: click.Context, name: str) -> None:
    """Print the log of a job."""
    from experiments.running.manage_jobs import print_log

    print_log(chosen_service(ctx), name)


command.add_command(prune)
