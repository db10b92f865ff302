"""Batch sizes that AWS has tested, where a sweep may begin that is told none.

Source: AWS, "SageMaker Training Compiler: Supported Frameworks, AWS Regions, Instance Types, and Tested Models",
docs.aws.amazon.com/sagemaker/latest/dg/training-compiler-support.html: the PyTorch tables as they stood in 2023, kept
beside this file. They hold the largest batch of each GPU that fits without the compiler and with it. Caveat: they are
of mixed precision and of stacks of their own, so they say where to begin, and what fits is found by the calibration.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).resolve().parent / "trcomp_tested_models.csv"

RANGE = 16
"""The smallest batch size of a range is the largest over this."""


class Tested(NamedTuple):
    """One row of AWS's tables."""

    model: str
    """Without its organisation, in lower case."""
    instance_type: str
    """Without `ml.`."""
    max_length: int
    """Tokens."""
    batch_native: int | None
    """Largest of each GPU without the compiler; None where AWS tells only the other."""
    batch_compiled: int | None
    """Largest of each GPU with it."""


def tested_batch_sizes(model: str, instance_type: str, compiler: str, max_length: int) -> tuple[int, ...] | None:
    """Return the powers of two from a sixteenth of the largest tested batch up to it; None where AWS tells nothing.

    A batch that fits at a longer length fits at this one. The same type of machine counts before others of its family,
    which have the same GPU.
    """
    largest = largest_tested(model, instance_type, compiler, max_length)
    if largest is None:
        return None
    return tuple(2**k for k in range(largest.bit_length()) if largest <= RANGE * 2**k and 2**k <= largest)


def largest_tested(model: str, instance_type: str, compiler: str, max_length: int) -> int | None:
    """Return the largest batch of each GPU that AWS tells to fit; None where it tells nothing."""
    name, machine = _model(model), _machine(instance_type)
    alike = [row for row in tested() if row.model == name and _family(row.instance_type) == _family(machine)]
    lengths = [row.max_length for row in alike if row.max_length >= max_length]
    rows = [row for row in alike if row.max_length == min(lengths, default=None)]
    same = [row for row in rows if row.instance_type == machine]
    known = [_batch(row, compiler) for row in same or rows]
    return max((batch for batch in known if batch is not None), default=None)


@cache
def tested() -> Sequence[Tested]:
    """Return all rows of the table."""
    with TABLE.open(newline="") as file:
        return [
            Tested(
                model=_model(row["model"]),
                instance_type=_machine(row["instance_type"]),
                max_length=int(row["seq_len"]),
                batch_native=_number(row["batch_native"]),
                batch_compiled=_number(row["batch_compiled"]),
            )
            for row in csv.DictReader(file)
        ]


def _number(text: str) -> int | None:
    return int(text) if text else None


def _batch(row: Tested, compiler: str) -> int | None:
    return row.batch_compiled if compiler == "trcomp" else row.batch_native


def _model(name: str) -> str:
    """Return `bert-base-uncased` of `google-bert/bert-base-uncased`, of a folder of this name, of `package:` names."""
    return name.rstrip("/").replace(":", "/").rsplit("/", 1)[-1].lower()


def _machine(instance_type: str) -> str:
    return instance_type.removeprefix("ml.").lower()


def _family(instance_type: str) -> str:
    return instance_type.split(".")[0]
