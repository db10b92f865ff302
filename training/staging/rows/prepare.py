"""From tables to checked, labelled, split rows: everything that can be wrong with data, before it is tokenised."""

from __future__ import annotations

from dataclasses import dataclass

from training.contract.errors import InputError
from training.staging.rows.examples import Examples, collect, spelling
from training.staging.rows.labels import check_classes, check_kinds, classes_of, encode
from training.staging.rows.split import stratified
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import Table, Tables


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Rows that can be tokenised."""

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
    """Refuse data that does not fill one global batch."""
    if train_rows < request.fewest_train_rows:
        raise InputError(
            f"the global batch size is {request.fewest_train_rows}, but {source} leaves only {train_rows} training "
            f"rows; make batch_size smaller or train_rows larger"
        )


def _split(tables: Tables, data: Data) -> tuple[Examples, Examples]:
    """Return (training, validation) rows. A limit takes the first rows, after the split where there is one."""
    if tables.validation is not None:
        train = _collect(tables.train, data, data.train_rows)
        return train, _collect(tables.validation, data, data.validation_rows)
    everything = _collect(tables.train, data, None)
    train, validation = stratified(everything, share=data.validation_share, seed=data.split_seed)
    return _first(train, data.train_rows), _first(validation, data.validation_rows)


def _collect(table: Table, data: Data, limit: int | None) -> Examples:
    skip = frozenset(map(spelling, data.skip_labels or ()))
    examples = collect(table.rows, source=table.name, unit=table.unit, columns=data.columns, limit=limit, skip=skip)
    if data.label_map is None:  # a map knows every label, whatever its kind
        check_kinds(examples)
    return examples


def _first(examples: Examples, limit: int | None) -> Examples:
    return examples if limit is None or limit >= len(examples) else examples.select(range(limit))
