"""The verb `probe`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.experiment_options import WAIT, ExperimentVerb, experiment_options

EXAMPLES = (
    "trainfare probe",
    "trainfare probe --experiment emotion --service sagemaker --machine.instance_type ml.g4dn.xlarge",
)


@click.command(cls=ExperimentVerb, examples=EXAMPLES)
@experiment_options(WAIT)
def command(fields: Mapping[str, str]) -> int:
    """Estimate the time and cost of every arm.

    Each job trains until the estimate is precise enough, then stops.
    """
    from experiments.running.launch import launch

    return launch("probe", fields)
