"""Read a case through the product: the one place to mend when the product's reading changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from tests.support.staging.tables import MODEL
from training.job.tasks import TASKS, Row
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import find_source
from training.staging.stage import stage
from training.staging.tokens.rows import select

SHOWN_ROWS = 3
SHOWN_CHARACTERS = 70


@dataclass(frozen=True, kw_only=True)
class Case:
    """Files, and the request that reads them."""

    files: Mapping[str, bytes | Callable[[Path], object]]
    """Content by path; or a function that writes the path."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Section `data` of an experiment. `train` is the first file if it is missing."""
    task: str = "classification"
    """Task that reads the files."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the staging request."""
    mentions: tuple[str, ...] = ()
    """Parts of the message of a refusal, apart from the file."""


def request(case: Case, folder: Path) -> StagingRequest:
    """Write the files of a case, and return the request that reads them."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content(path)
    fields: dict[str, Any] = dict(case.data)
    if "hub" in fields:
        fields["hub"] = {**fields["hub"], "name": str(folder / fields["hub"]["name"])}
    else:
        fields.setdefault("train", next(iter(case.files)))
        fields |= {name: str(folder / fields[name]) for name in ("train", "validation") if name in fields}
    options = {"max_length": 32, **case.options}
    return StagingRequest(task=case.task, data=Data(**fields), model=MODEL, **options)  # type: ignore[arg-type]


def read(case: Case, folder: Path) -> dict[str, Any]:
    """Return the rows of a case after the columns and labels were mapped, as digests with the first rows."""
    asked = request(case, folder)
    data, task = asked.data, TASKS[asked.task]
    source = find_source(data, list(task.columns(data.columns)), folder / "cache")
    found = select(source.open, asked, Progress())
    names, numbers = found.classes.names, found.classes.numbers
    both = [
        [(row.number, _values(row, [names[numbers[label]] for label in row.labels])) for row in part.read()]
        for part in (found.train, found.validation)
    ]
    labels = list(names)
    result: dict[str, Any] = {"labels": labels} if labels else {}
    if data.validation or (data.hub and data.hub.splits.validation):
        train, validation = ([row for _, row in rows] for rows in both)
        return {**result, "train": digest(train), "validation": digest(validation)}
    # Rows that were set aside are put back, so that one digest holds for all formats of a table.
    order = sorted([*both[0], *both[1]], key=lambda each: each[0])
    aside = {number for number, _ in both[1]}
    return {
        **result,
        "train": digest([row for _, row in order]),
        "set_aside": [at for at, (number, _) in enumerate(order) if number in aside],
    }


def _values(row: Row, labels: list[str]) -> list[Any]:
    """Return the values of a row in the form in which they were recorded."""
    if row.id:
        return [row.id, *row.texts, [list(answer) for answer in row.detail]]
    return [*row.texts, *([None] if labels and len(row.texts) == 1 else []), *labels]


def staged(case: Case, folder: Path) -> dict[str, Any]:
    """Return the channels that a job gets of a case: their columns, and figures about them."""
    import pyarrow.parquet as pq

    done = stage(request(case, folder), folder / "home")
    channels = {}
    for name in ("train", "validation"):
        path = Path(unquote(urlparse(done.channels[name]).path))
        tables = {"data": pq.read_table(sorted(path.glob("data*.parquet"))).to_pylist()}
        tables |= {each: pq.read_table(path / f"{each}.parquet").to_pylist() for each in _scoring(path)}
        metadata = json.loads((path / "channel.json").read_text("utf-8"))
        channels[name] = {"metadata": metadata} | {
            each: digest([dict(sorted(row.items())) for row in rows]) for each, rows in tables.items()
        }
    return {
        **channels,
        "class_counts": [list(getattr(done.description, each).class_counts) for each in channels],
        "bucket_lengths": list(done.bucket_lengths),
    }


def _scoring(folder: Path) -> list[str]:
    return [name for name in ("questions", "windows") if (folder / f"{name}.parquet").exists()]


def digest(rows: Iterable[Any]) -> dict[str, Any]:
    """Return the number and digest of rows, and the first rows for people."""
    lines = [json.dumps(row, ensure_ascii=True) for row in rows]
    return {
        "rows": len(lines),
        "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        "first": [line[:SHOWN_CHARACTERS] for line in lines[:SHOWN_ROWS]],
    }
