"""The verb `attach`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.experiment_options import FAIL_ON
from experiments.commands.verb import FieldVerb, field

EXAMPLES = ("trainfare attach --group demo-261101-120000-ab12",)


@click.command(cls=FieldVerb, is_closed=True, examples=EXAMPLES)
@field("group", "Group id, as printed by the command that started the jobs.  [required]", metavar="ID")
@FAIL_ON
def command(fields: Mapping[str, str]) -> int:
    """Follow the jobs of a group that another command started.

    The group may have been started on another machine.
    """
    from experiments.running.attach_group import attach

    return attach(fields)
