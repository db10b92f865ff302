"""Two single jobs side by side, with the percentages of AWS's notebooks on SageMaker Training Compiler."""

from __future__ import annotations

import math
from functools import partial

from reports.comparison.comparison import Comparison
from reports.model.numbers import NONE
from reports.model.report import Block, Cell, Column, Text, build_table, number_cell
from tracking.recorded.recorded_job import TRAINER_RATE, Job

BARS = {
    TRAINER_RATE: ("throughput", "samples/s"),
    "train_runtime": ("training time", "s"),
    "cost_billable_seconds": ("billable time", "s"),
}
_LOSSES = {"train_loss": "mean training loss", "loss": "last training loss", "eval_loss": "validation loss"}
_NOTE = (
    "Percentages as in AWS's notebooks on SageMaker Training Compiler, with n for the first and o for the second job: "
    "round((o / n − 1) * 100) for samples/s; −int((n − o) * 100 / n), which drops decimals, for seconds."
)


def percentages(comparison: Comparison) -> dict[str, Cell]:
    """Return the changes from the first to the second job of a pair by column, such as `+93 %`, where both are known.

    Source: aws/amazon-sagemaker-examples, the analysis in the notebooks of `sagemaker-training-compiler`.
    """
    cells = {}
    for column in BARS:
        n, o = (job.number(column) for job in comparison.jobs)
        if 0 < n < math.inf and 0 < o < math.inf:
            change = round((o / n - 1) * 100) if column == TRAINER_RATE else -int((n - o) * 100 / n)
            cells[column] = Cell(text=f"{change:+d} %".replace("-", "−"), number=change)
    return cells


def pair_blocks(comparison: Comparison) -> tuple[Block, ...]:
    """Return the table of a pair; empty for other comparisons."""
    if not comparison.is_pair:
        return ()
    changes = percentages(comparison)

    def cell(name: str, job: Job | None) -> Cell:
        return number_cell(job.number(name), "{:,g}".format) if job else changes.get(name, Cell(text=NONE))

    columns = [
        Column[Job | None]("job", lambda job: job.title if job else "change", kind="text"),
        *(Column(label, partial(cell, name), unit=unit) for name, (label, unit) in BARS.items()),
        *(Column(label, partial(cell, name), is_optional=True) for name, label in _LOSSES.items()),
    ]
    return build_table("The two jobs", columns, [*comparison.jobs, None]), Text(_NOTE, "small")
