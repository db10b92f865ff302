"""The verb `compare`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.experiment_options import FAIL_ON, WAIT, ExperimentVerb, experiment_options
from experiments.commands.verb import field

EXAMPLES = (
    "trainfare compare",
    "trainfare compare --experiment demo --compare.repeats 3",
    "trainfare compare --max-usd 5",
    "trainfare compare --fail-on dearer,worse",
    "trainfare compare --data.train reviews.jsonl --compare.arms '[{compiler: none}, {compiler: inductor}]'",
)


@click.command(cls=ExperimentVerb, examples=EXAMPLES)
@experiment_options(
    field("compare.arms", "Settings to compare: a YAML list of mappings.", metavar="LIST"),
    field("compare.repeats", "Most trainings of each arm, each with a different seed.", metavar="N"),
    WAIT,
    FAIL_ON,
)
def command(fields: Mapping[str, str]) -> int:
    """Train and repeat every arm of an experiment, and report.

    Each repeat trains with a different seed. An arm is repeated only until its verdict is clear.
    """
    from experiments.running.launch import launch

    return launch("compare", fields)
