"""Batch sizes that AWS has tested: the default range of a sweep.

Source: AWS, "SageMaker Training Compiler: Supported Frameworks, AWS Regions, Instance Types, and Tested Models",
docs.aws.amazon.com/sagemaker/latest/dg/training-compiler-support.html: the PyTorch tables of 2023, stored beside this
file. They list the largest batch size per GPU that fits in memory, without and with the compiler. Caveat: AWS measured
in mixed precision and with other library versions, so the sizes are a starting point; the calibration finds which fit.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).resolve().parent / "trcomp_tested_models.csv"

RANGE = 16
"""Ratio of the largest to the smallest batch size of a default range."""


class TestedModel(NamedTuple):
    """One row of AWS's tables."""

    model: str
    """Model name in lower case, without its organisation."""
    instance_type: str
    """Instance type without `ml.`."""
    max_length: int
    """Tokens."""
    batch_native: int | None
    """Largest batch size per GPU without the compiler; None if AWS does not list one."""
    batch_compiled: int | None
    """Largest batch size per GPU with the compiler; None if AWS does not list one."""


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
    name, instance = _model(model), _instance(instance_type)
    family_rows = [row for row in tested() if row.model == name and _family(row.instance_type) == _family(instance)]
    lengths = [row.max_length for row in family_rows if row.max_length >= max_length]
    rows = [row for row in family_rows if row.max_length == min(lengths, default=None)]
    exact_rows = [row for row in rows if row.instance_type == instance]
    sizes = [_batch(row, compiler) for row in exact_rows or rows]
    return max((size for size in sizes if size is not None), default=None)


@cache
def tested() -> Sequence[TestedModel]:
    """Return all rows of the table."""
    with TABLE.open(newline="") as file:
        return [
            TestedModel(
                model=_model(row["model"]),
                instance_type=_instance(row["instance_type"]),
                max_length=int(row["seq_len"]),
                batch_native=_number(row["batch_native"]),
                batch_compiled=_number(row["batch_compiled"]),
            )
            for row in csv.DictReader(file)
        ]


def _number(text: str) -> int | None:
    return int(text) if text else None


def _batch(row: TestedModel, compiler: str) -> int | None:
    return row.batch_compiled if compiler == "trcomp" else row.batch_native


def _model(name: str) -> str:
    """Return the bare name: `bert-base-uncased` for `google-bert/bert-base-uncased`, a folder or a `package:`."""
    return name.rstrip("/").replace(":", "/").rsplit("/", 1)[-1].lower()


def _instance(instance_type: str) -> str:
    return instance_type.removeprefix("ml.").lower()


def _family(instance_type: str) -> str:
    return instance_type.split(".")[0]
