"""The verb `register`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.verb import FieldVerb, experiment_field, field

EXAMPLES = (
    "trainfare register --experiment demo",
    "trainfare register --group demo-261101-120000-ab12 --alias challenger",
    "trainfare register --run RUN_ID --name reviews --allow other-data",
)


@click.command(cls=FieldVerb, is_closed=True, examples=EXAMPLES)
@experiment_field("Register the winner of the latest group of this experiment.")
@field("group", "Register the winner of the group of this id.", metavar="ID")
@field("run", "Register the model of this run id, job name or group id.", metavar="RUN")
@field("name", "Name of the registered model. Default: the experiment's name.", metavar="NAME")
@field("alias", "Alias for the new version.", metavar="NAME", default="champion", show_default=True)
@field(
    "allow",
    "Checks of the quality gate to skip, separated by commas: failed, unevaluated, worse, other-data.",
    metavar="CHECKS",
)
def command(fields: Mapping[str, str]) -> int:
    """Register a trained model and set its alias.

    The model becomes a version of its experiment's registered model.
    """
    from experiments.deployments.register_model import register

    return register(fields)
