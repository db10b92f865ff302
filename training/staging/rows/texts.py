"""Read and split texts without labels."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from training.contract.errors import InputError
from training.staging.rows.examples import checked_text
from training.staging.sources.request import Data
from training.staging.sources.sources import Table, Tables


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Texts of one channel."""

    source: str
    """File or Hub split of the texts, for messages."""
    texts: list[str]
    """Texts that are not blank."""


def read_texts(tables: Tables, data: Data) -> tuple[Texts, Texts]:
    """Return (training, validation) texts. Limits on rows keep the first texts of each after the split."""
    if tables.validation is not None:
        train = collect(tables.train, data.columns.text, data.train_rows)
        return train, collect(tables.validation, data.columns.text, data.validation_rows)
    everything = collect(tables.train, data.columns.text, None)
    train, validation = split(everything, share=data.validation_share, seed=data.split_seed)
    return _first(train, data.train_rows), _first(validation, data.validation_rows)


def collect(table: Table, column: str, limit: int | None) -> Texts:
    """Return the first `limit` texts, or all. Blank texts are skipped: they contain nothing to learn."""
    texts = list(islice(_texts(table, column), limit))
    if not texts:
        raise InputError(f"{table.name} has only blank texts")
    return Texts(source=table.name, texts=texts)


def _texts(table: Table, column: str) -> Iterator[str]:
    for number, values in table.rows:
        text = checked_text(f"{table.name} {table.unit} {number}", column, values[0], may_be_blank=True)
        if text.strip():
            yield text


def split(everything: Texts, *, share: float, seed: int) -> tuple[Texts, Texts]:
    """Return (training, validation): a random `share` of the texts becomes validation. The order is kept."""
    texts = everything.texts
    if len(texts) < 2:
        raise InputError(f"{everything.source} has only one text, too few to set validation texts aside")
    count = min(max(round(len(texts) * share), 1), len(texts) - 1)
    aside = set(random.Random(seed).sample(range(len(texts)), count))
    train = [text for index, text in enumerate(texts) if index not in aside]
    validation = [text for index, text in enumerate(texts) if index in aside]
    return Texts(source=everything.source, texts=train), Texts(source=everything.source, texts=validation)


def _first(texts: Texts, limit: int | None) -> Texts:
    return Texts(source=texts.source, texts=texts.texts[:limit])
