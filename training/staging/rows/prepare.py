"""Read, check and split labelled rows, and number their classes. All errors in the data are raised here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from training.contract.errors import InputError
from training.staging.rows.examples import Example, label_text, read_examples
from training.staging.rows.labels import Classes, LabelSurvey, check_classes, classes_of
from training.staging.rows.selection import Reading, Selection, select
from training.staging.sources.progress import Progress
from training.staging.sources.request import StagingRequest
from training.staging.sources.sources import Tables


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Rows that are checked and ready to be tokenised."""

    classes: Classes
    """The classes, and the class of every label."""
    rows: Selection[Example, LabelSurvey]
    """Rows of both channels."""


def prepare(open_tables: Callable[[], Tables], request: StagingRequest, progress: Progress) -> Prepared:
    """Read, check, split and number the rows."""
    data = request.data
    skip = frozenset(map(label_text, data.skip_labels or ()))
    reading = Reading(
        open=open_tables,
        rows=lambda table: read_examples(table, data.columns, skip),
        survey=lambda table: LabelSurvey(table, data),
        data=data,
        progress=progress,
    )
    rows = select(reading)
    first, *others = rows.surveys
    classes = classes_of(data, rows.tables.label_names, rows.source, first.counts)
    first.check_known(classes)
    check_classes(rows.source, {classes.numbers[label] for label in first.counts}, classes)
    check_rows(rows.train.rows, request, rows.source)
    for survey in others:
        survey.check_known(classes)
    return Prepared(classes=classes, rows=rows)


def check_rows(train_rows: int, request: StagingRequest, source: str) -> None:
    """Raise InputError if the training rows do not fill one global batch."""
    if train_rows < request.min_train_rows:
        raise InputError(
            f"the global batch size is {request.min_train_rows}, but {source} has only {train_rows} training "
            f"rows; reduce batch_size or use more training rows"
        )
