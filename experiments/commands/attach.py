"""The verb `attach`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.experiment_options import FAIL_ON
from experiments.commands.verb import TRUST, FieldVerb, field, read_flag
from training.contract.errors import InputError

EXAMPLES = (
    "trainfare attach --group demo-261101-120000-ab12",
    "trainfare attach --job huggingface-pytorch-training-2026-11-01-12-00-00-000",
    "trainfare attach --tuning-job bert-tuning-261101",
)


@click.command(cls=FieldVerb, is_closed=True, examples=EXAMPLES)
@field("group", "Group id, as printed by the command that started the jobs.", metavar="ID")
@field("job", "Training job of the AWS account that others started.", metavar="NAME")
@field("tuning-job", "Tuning job of the AWS account, all of whose training jobs are recorded.", metavar="NAME")
@field("experiment", "MLflow experiment of --job and --tuning-job.", metavar="NAME", default="sagemaker-jobs")
@field("region", "AWS region of --job and --tuning-job.")
@field("prices", "Table of prices for --job and --tuning-job, instead of AWS's price list.", metavar="FILE")
@field(TRUST, "Start the jobs of --group although their plan was not made here; it is shown first.", is_flag=True)
@FAIL_ON
def command(fields: Mapping[str, str]) -> int:
    """Follow jobs that another command or person started.

    A group may have been started on another machine. If this machine did not make the group's plan, it shows what would
    start, and asks. A training job of the AWS account that others started, or all jobs of a tuning job, are recorded
    in MLflow once: their metrics, log, billable seconds and price.
    """
    if len(chosen := [name for name in ("group", "job", "tuning-job") if name in fields]) > 1:
        raise InputError(f"--{chosen[0]} and --{chosen[1]} cannot be combined: attach follows one of them.")
    if not chosen or "group" in fields:
        from experiments.imports.import_jobs import attach_import
        from experiments.running.attach_group import attach

        return attach(fields, attach_import, is_trusted=read_flag(TRUST, fields.get(TRUST, "false")))
    from experiments.imports.import_jobs import attach_jobs

    return attach_jobs(fields)
