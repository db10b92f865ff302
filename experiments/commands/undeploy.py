"""The verb `undeploy`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.verb import FieldVerb, field

EXAMPLES = (
    "trainfare undeploy --endpoint demo",
    "trainfare undeploy --all true",
)


@click.command(cls=FieldVerb, is_closed=True, prefixes=("aws.",), examples=EXAMPLES)
@field("endpoint", "Name of the endpoint.", metavar="NAME")
@field("all", "true deletes every endpoint that `trainfare endpoints` lists.", metavar="true|false")
@field("service", "Service of the endpoint.", metavar="local|sagemaker")
def command(fields: Mapping[str, str]) -> int:
    """Delete an endpoint, or all endpoints."""
    from experiments.deployments.existing_endpoints import undeploy

    return undeploy(fields)
