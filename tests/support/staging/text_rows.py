"""Many texts of different lengths, in files of several formats."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.support.staging.tables import PACKED

WORDS = ("good", "bad", "film", "really", "the", "a", "awful", "wonderful", "plot")


def rows(count: int) -> list[dict[str, str]]:
    """Return texts of 3 to 20 words whose labels are sorted, as in many public data sets."""
    chosen = random.Random(1)
    return [
        {"text": " ".join(chosen.choices(WORDS, k=chosen.randint(3, 20))), "label": "no" if at * 2 < count else "yes"}
        for at in range(count)
    ]


def written(path: Path, count: int) -> Path:
    """Write rows in the format of the file's suffix."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows(count)), path)
        return path
    text = "\n".join(map(json.dumps, rows(count)))
    if path.suffix == ".csv":
        text = "\n".join(["text,label", *(f'"{row["text"]}",{row["label"]}' for row in rows(count))])
    path.write_bytes(PACKED.get(path.suffix, bytes)(text.encode()))
    return path
