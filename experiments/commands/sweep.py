"""The verb `sweep`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.experiment_options import FAIL_ON, ExperimentVerb, experiment_options
from experiments.commands.verb import field

EXAMPLES = (
    "trainfare sweep --experiment demo --sweep.trials 12",
    "trainfare sweep --fail-on dearer,worse",
    "trainfare sweep --sweep.batch_sizes 8..128 --max_billable_seconds 3600",
)


@click.command(cls=ExperimentVerb, examples=EXAMPLES)
@experiment_options(
    field("sweep.trials", "Largest number of trials for each compiler.", metavar="N"),
    field("sweep.batch_sizes", "Batch sizes to search, as a range.", metavar="LOW..HIGH"),
    field("sweep.compilers", "Compiler settings to search, separated by commas.", metavar="NAMES"),
    FAIL_ON,
)
def command(fields: Mapping[str, str]) -> int:
    """Search batch sizes and learning rates, and repeat the winner.

    Each compiler setting is searched separately. The same command on another machine joins the sweep.
    """
    from experiments.sweeping.run_sweep import sweep

    return sweep(fields)
