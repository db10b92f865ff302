"""The verb `ui`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.verb import FieldVerb, field

EXAMPLES = (
    "trainfare ui",
    "trainfare ui --experiment demo",
)


@click.command(cls=FieldVerb, is_closed=True, examples=EXAMPLES)
@field("experiment", "Experiment to show. Default: the experiment of the latest command.", metavar="NAME")
def command(fields: Mapping[str, str]) -> int:
    """Open MLflow's UI on the runs of an experiment."""
    from experiments.running.open_ui import ui

    return ui(fields)
