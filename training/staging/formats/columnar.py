"""Read Parquet and Arrow files in a process of its own: pyarrow trusts a file, and a bad one can end its process.

The process has a limit on memory and on time, and reads one file after the other. This file is also its program.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from state.own_process import own_process
from training.contract.errors import InputError, first_line
from training.contract.plain_text import size_text
from training.staging.formats.files import Row, TextFormat, missing_column, plain_suffix, unpacked_file

MAX_MEMORY_BYTES = 2 * 1024**3
MAX_SECONDS = 60.0
"""CPU time until the first rows, and between lists of rows."""
BATCH_ROWS = 100
SIZE_BYTES = 8
ARROW_FILE, OLD_FEATHER = b"ARROW1\0\0", b"FEA1"

_idle: dict[int, list[subprocess.Popen[bytes]]] = defaultdict(list)
"""Processes without a file, by the id of their parent: a forked process must not share the pipes of its parent."""
_busy: set[subprocess.Popen[bytes]] = set()
"""Processes with a file. Python may delete a generator's objects in any order, but not those that are here."""


def columnar_rows(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every row of a Parquet file, or an Arrow file or stream, in order.

    Raises InputError for a damaged file, and for one that needs too much memory or time.
    """
    kind = "Parquet" if plain_suffix(path) == ".parquet" else "Arrow"
    number = 0
    with unpacked_file(path, text.max_expansion) as plain:
        program = own_process(__name__, str(MAX_MEMORY_BYTES), str(MAX_SECONDS))
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        process = _idle_process() or subprocess.Popen(**program, stdin=pipe, stdout=pipe, stderr=none)
        _busy.add(process)
        assert process.stdin
        assert process.stdout
        try:
            request = {"kind": kind, "path": str(plain.absolute()), "name": str(path), "columns": list(columns)}
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            while data := _message(process.stdout):
                rows = pickle.loads(data)
                if not rows or isinstance(rows, str):
                    break
                for values in rows:
                    number += 1
                    yield number, values
            else:
                reason = f"cannot be read: it ended the process that reads it (exit code {process.wait()})"
                if process.returncode == -signal.SIGPROF:
                    reason = f"takes more than {MAX_SECONDS:g} s to read {BATCH_ROWS} rows"
                raise InputError(f"{path} {reason}; {_way_on(kind)}")
        except BaseException:
            _busy.remove(process)
            _stop(process)
            raise
        _busy.remove(process)
        _idle[os.getpid()].append(process)
        if rows:
            raise InputError(rows)


def _message(stream: IO[bytes]) -> bytes:
    """Return the next message of a process; empty if it has ended."""
    size = int.from_bytes(stream.read(SIZE_BYTES))
    data = stream.read(size)
    return data if len(data) == size else b""


def _idle_process() -> subprocess.Popen[bytes] | None:
    idle = _idle[os.getpid()]
    while idle:
        if (process := idle.pop()).poll() is None:
            return process
        _stop(process)
    return None


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with suppress(OSError), process:
        pass


@atexit.register
def _stop_idle() -> None:
    for process in _idle.pop(os.getpid(), []):
        _stop(process)


def _way_on(kind: str) -> str:
    parts = "row groups and pages" if kind == "Parquet" else "record batches"
    return f"if it is not damaged, write it with smaller {parts}, or as JSON Lines"


def main(max_memory_bytes: int, max_seconds: float) -> None:
    """Answer each line of standard input, a request, with lists of rows and an empty list, or else with an error."""
    with suppress(ValueError):  # A limit that exists is lower.
        resource.setrlimit(resource.RLIMIT_DATA, (max_memory_bytes, max_memory_bytes))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        kind, name, columns = request["kind"], request["name"], request["columns"]
        read = _parquet if kind == "Parquet" else _arrow
        signal.setitimer(signal.ITIMER_PROF, max_seconds)
        try:
            for batch in read(request["path"], name, columns):
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    part = batch.slice(start, BATCH_ROWS)
                    values = (part.column(each).to_pylist() for each in columns)
                    _send([list(row) for row in zip(*values, strict=True)])
                    signal.setitimer(signal.ITIMER_PROF, max_seconds)
            _send([])
        except InputError as error:
            _send(str(error))
        except MemoryError:
            _send(f"{name} needs more than {size_text(max_memory_bytes)} of memory; {_way_on(kind)}")
        except Exception as error:  # A damaged file raises about ten classes, from its schema or amid a batch.
            _send(f"{name} is not a valid {kind} file: {first_line(error, 200)}")


def _send(message: list[Any] | str) -> None:
    data = pickle.dumps(message)
    sys.stdout.buffer.write(len(data).to_bytes(SIZE_BYTES) + data)
    sys.stdout.buffer.flush()


def _parquet(path: str, name: str, columns: list[str]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, memory_map=True, page_checksum_verification=True)
    _check_columns(name, columns, file.schema_arrow.names)
    yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns, use_threads=False)


def _arrow(path: str, name: str, columns: list[str]) -> Iterator[Any]:
    import pyarrow as pa

    source = pa.memory_map(path).read_buffer()
    start = source[: len(ARROW_FILE)].to_pybytes()
    if start.startswith(OLD_FEATHER):
        raise InputError(f"{name} is Feather of version 1; write it again with pandas' to_feather")
    content = source[len(ARROW_FILE) :] if start == ARROW_FILE else source  # A file has a stream within it.
    names = pa.ipc.open_stream(content).schema.names
    _check_columns(name, columns, names)
    fields = sorted({*map(names.index, columns)})
    for batch in pa.ipc.open_stream(content, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)):
        batch.validate(full=True)  # Offsets that point outside the file would give the content of other memory.
        yield batch


def _check_columns(name: str, columns: Sequence[str], known: Sequence[str]) -> None:
    for column in columns:
        if known.count(column) != 1:
            raise missing_column(name, column, known)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
