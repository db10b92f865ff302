"""Size of a Parquet file's columns, from its footer.

pyarrow ends the whole process if the statistics of a column are damaged: its accessor of a column chunk does not catch
the exceptions of the C++ library. So a footer is read in a process of its own. Running this file as a program prints
the size; it imports nothing else of ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class FooterSize:
    """Size of some columns as their footer states it."""

    rows: int
    """Values of the column that has the most: those of lists and runs of equal values count as well."""
    text_bytes: int
    """Size of all values of the columns, in bytes, uncompressed."""


def read_footer_size(path: Path, columns: Sequence[str], content: bytes | None = None) -> FooterSize:
    """Return the size of `columns` in the file at `path`, or in its decompressed `content`.

    Raises ValueError if the footer is damaged.
    """
    command = [sys.executable, __file__, "-" if content is not None else str(path.absolute()), *columns]
    try:
        done = subprocess.run(command, input=content or b"", capture_output=True, timeout=MAX_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"its footer takes more than {MAX_SECONDS} s to read") from error
    if done.returncode:
        raise ValueError(_reason(done.stderr.decode(errors="replace")))
    return FooterSize(**json.loads(done.stdout))


def _reason(output: str) -> str:
    """Return the message of the C++ library or of the exception that ended the process."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    thrown = next((line.removeprefix("what():").strip() for line in lines if line.startswith("what():")), "")
    return thrown or (lines[-1].partition(": ")[2] or lines[-1] if lines else "its footer is damaged")


def footer_size(metadata: Any, columns: Sequence[str]) -> dict[str, int]:
    """Return the fields of a `FooterSize`."""
    values: Counter[str] = Counter()
    size = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema.split(".")[0] in columns:
                values[column.path_in_schema] += column.num_values
                size += column.total_uncompressed_size
    return {"rows": max(values.values(), default=0), "text_bytes": size}


def main() -> None:
    """Print the size of the columns of a file, whose name, or `-` for standard input, is the first argument."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name, *columns = sys.argv[1:]
    source = pa.BufferReader(sys.stdin.buffer.read()) if name == "-" else name
    print(json.dumps(footer_size(pq.ParquetFile(source).metadata, columns)))


if __name__ == "__main__":
    main()
