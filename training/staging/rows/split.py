"""Validation rows cut from the training rows where the data brings none."""

from __future__ import annotations

import random
from collections import defaultdict

from training.contract.errors import InputError
from training.staging.rows.examples import Examples, Label


def stratified(examples: Examples, *, share: float, seed: int) -> tuple[Examples, Examples]:
    """Return (training, validation): `share` of every class set aside, at random by `seed`, the order kept.

    A class of two rows or more keeps at least one row on either side; a class of one stays in training.
    """
    by_label: dict[Label, list[int]] = defaultdict(list)
    for at, label in enumerate(examples.labels):
        by_label[label].append(at)
    chooser = random.Random(seed)
    validation: set[int] = set()
    for rows in by_label.values():
        validation.update(chooser.sample(rows, _count(len(rows), share)))
    if not validation:
        raise InputError(f"{examples.source} has one row a class: too few to set validation rows aside")
    training = (at for at in range(len(examples)) if at not in validation)
    return examples.select(training), examples.select(sorted(validation))


def _count(rows: int, share: float) -> int:
    return min(max(round(rows * share), 1), rows - 1)
