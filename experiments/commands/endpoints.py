"""The verb `endpoints`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.verb import FieldVerb, field

EXAMPLES = (
    "trainfare endpoints",
    "trainfare endpoints --service sagemaker --aws.region eu-west-1",
)


@click.command(cls=FieldVerb, is_closed=True, prefixes=("aws.",), examples=EXAMPLES)
@field("service", "List only the endpoints of this service.", metavar="local|sagemaker")
def command(fields: Mapping[str, str]) -> int:
    """List endpoints with their price per hour and cost so far."""
    from experiments.deployments.existing_endpoints import endpoints

    return endpoints(fields)
