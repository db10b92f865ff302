"""Labelled rows as staging prepares them, read into lists."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.staging.tables import MODEL
from training.job.tasks import TASKS, Row
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import find_source
from training.staging.tokens.rows import Selection, select


def selected(data: Data, **more: Any) -> Selection:
    """Read, check, split and number the rows of the data."""
    request = StagingRequest(data=data, model=MODEL, max_length=16, **more)
    source = find_source(data, list(TASKS[request.task].columns(data.columns)), Path("unused"))
    return select(source.open, request, Progress())


@dataclass(frozen=True, kw_only=True)
class PreparedRows:
    """Rows of both channels, with their class numbers."""

    label_names: tuple[str, ...]
    train: list[Row]
    train_classes: list[int]
    validation: list[Row]
    validation_classes: list[int]


def prepared(data: Data, **more: Any) -> PreparedRows:
    """Return the rows of the data in lists."""
    rows = selected(data, **more)
    train, validation = list(rows.train.read()), list(rows.validation.read())
    assert (len(train), len(validation)) == (rows.train.rows, rows.validation.rows)
    classes = rows.classes
    return PreparedRows(
        label_names=classes.names,
        train=train,
        train_classes=[classes.numbers[row.labels[0]] for row in train],
        validation=validation,
        validation_classes=[classes.numbers[row.labels[0]] for row in validation],
    )
