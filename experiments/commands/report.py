"""The verb `report`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.experiment_options import FAIL_ON
from experiments.commands.verb import FieldVerb, experiment_field, field

EXAMPLES = (
    "trainfare report",
    "trainfare report --group demo-261101-120000-ab12 --format markdown",
    "trainfare report --runs RUN_ID,JOB_NAME --baseline JOB_NAME",
    "trainfare report --experiment demo --overview true",
)


@click.command(cls=FieldVerb, is_closed=True, examples=EXAMPLES)
@experiment_field("Experiment whose latest group is reported on.")
@field("group", "Report on the group of this id.", metavar="ID")
@field("runs", "Report on these run ids, job names and group ids, separated by commas.", metavar="NAMES")
@field("overview", "true reports on all groups of an MLflow experiment and their cost.", metavar="true|false")
@field("baseline", "Arm, job or run that the others are compared with.", metavar="NAME")
@field("allow", "Differences between the jobs' work to ignore, separated by commas.", metavar="KINDS")
@field("format", "Format of the output.", metavar="text|markdown|json", default="text", show_default=True)
@FAIL_ON
def command(fields: Mapping[str, str]) -> int:
    """Report on tracked jobs: a group, or any runs."""
    from experiments.running.write_report import report

    return report(fields)
