"""Batch sizes that AWS has tested: the default range of a sweep.

Source: AWS, "SageMaker Training Compiler: Supported Frameworks, AWS Regions, Instance Types, and Tested Models",
docs.aws.amazon.com/sagemaker/latest/dg/training-compiler-support.html: the PyTorch tables of 2023, stored beside this
file. They list the largest batch size per GPU that fits in memory, without and with the compiler. Caveat: AWS measured
in mixed precision and with other library versions, so the sizes are a starting point; the calibration finds which fit.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

TABLE = Path(__file__).resolve().parent / "trcomp_tested_models.csv"

RANGE = 16
"""Ratio of the largest to the smallest batch size of a default range."""


def tested_batch_sizes(model: str, instance_type: str, compiler: str, max_length: int) -> tuple[int, ...] | None:
    """Return the powers of two from a sixteenth of the largest tested batch size up to it; None for untested models.

    A batch that fits at a longer length also fits at this length. The exact instance type takes precedence over other
    types of its family, which have the same GPU.
    """
    largest = largest_tested(model, instance_type, compiler, max_length)
    if largest is None:
        return None
    return tuple(2**k for k in range(largest.bit_length()) if largest <= RANGE * 2**k and 2**k <= largest)


def largest_tested(model: str, instance_type: str, compiler: str, max_length: int) -> int | None:
    """Return the largest batch size per GPU that fits according to AWS; None for untested models."""
    name, instance = _bare_name(model), instance_type.removeprefix("ml.").lower()
    column = "batch_compiled" if compiler == "trcomp" else "batch_native"
    named = [row for row in tested() if _bare_name(row["model"]) == name]
    family = [row for row in named if row["instance_type"].startswith(f"{instance.split('.')[0]}.")]
    length = min((int(row["seq_len"]) for row in family if int(row["seq_len"]) >= max_length), default=None)
    rows = [row for row in family if int(row["seq_len"]) == length]
    exact_rows = [row for row in rows if row["instance_type"] == instance]
    return max((int(row[column]) for row in exact_rows or rows if row[column]), default=None)


@cache
def tested() -> Sequence[Mapping[str, str]]:
    """Return all rows of the table, with instance types without `ml.`."""
    with TABLE.open(newline="") as file:
        return [
            {**row, "instance_type": row["instance_type"].removeprefix("ml.").lower()} for row in csv.DictReader(file)
        ]


def _bare_name(model: str) -> str:
    """Return the bare name: `bert-base-uncased` for `google-bert/bert-base-uncased`, a folder or a `package:`."""
    return model.rstrip("/").replace(":", "/").rsplit("/", 1)[-1].lower()
