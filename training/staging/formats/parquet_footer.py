"""Size of a Parquet file's columns, from its footer.

pyarrow ends the whole process if the statistics of a column are damaged: its accessor of a column chunk does not catch
the exceptions of the C++ library. So footers are read in a process of their own, which reads one after the other. This
file is its program.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.state.own_process import own_process

MAX_SECONDS = 60.0


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
    if content is None:
        return _reader().ask(path, columns)
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        file.write(content)
        file.flush()
        return _reader().ask(Path(file.name), columns)


class FooterReader:
    """Process that reads footers. It starts with the first question, and again after a footer that ended it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def ask(self, path: Path, columns: Sequence[str]) -> FooterSize:
        """Return the size of the columns in a file. Raises ValueError if the footer is damaged."""
        with self._lock:
            if self._process and self._process.poll() is not None:  # something has killed it
                self.close()
            process = self._process = self._process or _started()
            assert process.stdin
            assert process.stdout
            process.stdin.write(json.dumps([str(path.absolute()), *columns]).encode() + b"\n")
            process.stdin.flush()
            if not select.select([process.stdout], [], [], MAX_SECONDS)[0]:
                self._end()
                raise ValueError(f"its footer takes more than {MAX_SECONDS:.0f} s to read")
            line = process.stdout.readline()
            if not line:
                raise ValueError(self._end())
        answer = json.loads(line)
        if "error" in answer:
            raise ValueError(answer["error"])
        return FooterSize(**answer)

    def _end(self) -> str:
        """End the process, and return the message of the C++ library that ended it."""
        lines = [line.strip() for line in self.close().splitlines()]
        reasons = [line.removeprefix("what():").strip() for line in lines if line.startswith("what():")]
        return reasons[0] if reasons else "its footer is damaged"

    def close(self) -> str:
        """End the process, if it runs, and return its error output."""
        process, self._process = self._process, None
        if process is None:
            return ""
        process.kill()
        return process.communicate()[1].decode(errors="replace")


def _started() -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(**own_process(__name__), stdin=pipe, stdout=pipe, stderr=pipe)


_readers: dict[int, FooterReader] = {}
"""The reader of this process, by its id: a forked process must not share the pipes of its parent."""


def _reader() -> FooterReader:
    if os.getpid() not in _readers:
        _readers[os.getpid()] = FooterReader()
    return _readers[os.getpid()]


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
    """Answer each line of standard input, a JSON list of a path and columns, with a line of JSON."""
    import pyarrow.parquet as pq

    for line in sys.stdin:
        path, *columns = json.loads(line)
        try:
            answer: dict[str, Any] = footer_size(pq.ParquetFile(path).metadata, columns)
        except Exception as error:
            answer = {"error": (str(error).splitlines() or [type(error).__name__])[0]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
