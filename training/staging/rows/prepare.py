"""Read, check, split and number labelled rows. All errors in the data are raised here."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass

from training.contract.errors import InputError
from training.staging.rows.examples import Examples, Label, collect, label_text
from training.staging.rows.labels import check_classes, check_label_types, classes_of, encode
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import Table, Tables


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Rows that are ready to be tokenised."""

    label_names: tuple[str, ...]
    """Names in the order of the class numbers."""
    train: Examples
    """Rows to train on."""
    train_classes: list[int]
    """Class number of each training row."""
    validation: Examples
    """Rows to evaluate on."""
    validation_classes: list[int]
    """Class number of each validation row."""


def prepare(tables: Tables, request: StagingRequest) -> Prepared:
    """Read, check, split and number the rows."""
    train, validation = _split(tables, request.data)
    classes = classes_of(request.data, tables.label_names, train)
    train_classes = encode(train, classes)
    check_classes(train, train_classes, classes)
    check_rows(len(train), request, train.source)
    return Prepared(
        label_names=classes.names,
        train=train,
        train_classes=train_classes,
        validation=validation,
        validation_classes=encode(validation, classes),
    )


def check_rows(train_rows: int, request: StagingRequest, source: str) -> None:
    """Raise InputError if the training rows do not fill one global batch."""
    if train_rows < request.min_train_rows:
        raise InputError(
            f"the global batch size is {request.min_train_rows}, but {source} has only {train_rows} training "
            f"rows; reduce batch_size or use more training rows"
        )


def _split(tables: Tables, data: Data) -> tuple[Examples, Examples]:
    """Return (training, validation) rows. Limits apply after the split: each part keeps its first rows."""
    if tables.validation is not None:
        train = _collect(tables.train, data, data.train_rows)
        return train, _collect(tables.validation, data, data.validation_rows)
    everything = _collect(tables.train, data, None)
    train, validation = stratified_split(everything, share=data.validation_share, seed=data.split_seed)
    return _first(train, data.train_rows), _first(validation, data.validation_rows)


def _collect(table: Table, data: Data, limit: int | None) -> Examples:
    skip = frozenset(map(label_text, data.skip_labels or ()))
    examples = collect(table.rows, source=table.name, unit=table.unit, columns=data.columns, limit=limit, skip=skip)
    if data.label_map is None:  # A label map may mix words and numbers.
        check_label_types(examples)
    return examples


def stratified_split(examples: Examples, *, share: float, seed: int) -> tuple[Examples, Examples]:
    """Return (training, validation): a random `share` of every class becomes validation. The order is kept.

    A class of two or more rows has at least one row on each side; a class of one row stays in training.
    """
    rows_by_label: dict[Label, list[int]] = defaultdict(list)
    for row, label in enumerate(examples.labels):
        rows_by_label[label].append(row)
    generator = random.Random(seed)
    validation: set[int] = set()
    for rows in rows_by_label.values():
        count = min(max(round(len(rows) * share), 1), len(rows) - 1)
        validation.update(generator.sample(rows, count))
    if not validation:
        raise InputError(f"{examples.source} has only one row per class, too few to set validation rows aside")
    training = (row for row in range(len(examples)) if row not in validation)
    return examples.select(training), examples.select(sorted(validation))


def _first(examples: Examples, limit: int | None) -> Examples:
    return examples if limit is None or limit >= len(examples) else examples.select(range(limit))
