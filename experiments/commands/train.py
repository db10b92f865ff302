"""The verb `train`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.experiment_options import WAIT, ExperimentVerb, experiment_options

EXAMPLES = (
    "trainfare train",
    "trainfare train --data.train reviews.jsonl --compiler inductor --batch_size 32",
    "trainfare train --experiment emotion --base_learning_rate 3e-5 --wait false",
)


@click.command(cls=ExperimentVerb, examples=EXAMPLES)
@experiment_options(WAIT)
def command(fields: Mapping[str, str]) -> int:
    """Train one job."""
    from experiments.running.launch import launch

    return launch("train", fields)
