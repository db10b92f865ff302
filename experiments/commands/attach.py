"""The verb `attach`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.experiment_options import FAIL_ON
from experiments.commands.verb import TRUST, FieldVerb, field
from experiments.running.options import read_flag
from training.contract.errors import InputError

EXAMPLES = (
    "trainfare attach --group demo-261101-120000-ab12",
    "trainfare attach --job huggingface-pytorch-training-2026-11-01-12-00-00-000",
)


@click.command(cls=FieldVerb, is_closed=True, examples=EXAMPLES)
@field("group", "Group id, as printed by the command that started the jobs.", metavar="ID")
@field("job", "Training job of the AWS account that others started.", metavar="NAME")
@field("experiment", "MLflow experiment of --job.", metavar="NAME", default="sagemaker-jobs")
@field("region", "AWS region of --job.")
@field("prices", "Table of prices for --job, instead of AWS's price list.", metavar="FILE")
@field(
    TRUST,
    "Start the group's jobs without asking, even if the plan was made elsewhere. The plan is still shown.",
    is_flag=True,
)
@FAIL_ON
def command(fields: Mapping[str, str]) -> int:
    """Follow jobs that another command or person started.

    A group may have been started on another machine. If the group's plan was not made with this state folder, attach
    shows what would start and asks first. A training job of the AWS account that others started is recorded in MLflow
    once: its metrics, log, billable seconds and price.
    """
    if "group" in fields and "job" in fields:
        raise InputError("--group and --job cannot be combined: attach follows one of them.")
    if "job" in fields:
        from experiments.running.attach_job import attach_job

        return attach_job(fields)
    from experiments.running.attach_group import attach

    return attach(fields, is_trusted=read_flag(fields, TRUST))
