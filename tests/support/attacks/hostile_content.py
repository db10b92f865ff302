"""Writers of data files that try to use all memory or time: small ones that contain gigabytes, and malformed ones."""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

MIB = 1024**2
WORDS = "some words and more of them, "


def repeated_gzip(first: bytes, block: bytes, times: int, last: bytes = b"") -> Callable[[Path], None]:
    """Return a writer of a gzip file with `first`, `times` equal blocks, and `last`."""
    return repeated(gzip.compress, first, block, times, last)


def repeated(
    compress: Callable[[bytes], bytes], first: bytes, block: bytes, times: int, last: bytes = b""
) -> Callable[[Path], None]:
    """Return a writer of a compressed file with `first`, `times` equal blocks, and `last`."""

    def write(path: Path) -> None:
        packed = compress(block)
        with path.open("wb") as file:
            file.write(compress(first))
            for _ in range(times):
                file.write(packed)
            file.write(compress(last))

    return write


def zstandard(data: bytes) -> bytes:
    """Return data as one Zstandard frame."""
    import pyarrow as pa

    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


def wide_window(path: Path) -> None:
    """Write a Zstandard frame that requests a window of 2 GiB."""
    path.write_bytes(b"\x28\xb5\x2f\xfd\x00" + bytes([(31 - 10) << 3]) + b"\x03\x00\x00" + b"a" * 100)


def content(*parts: bytes) -> Callable[[Path], None]:
    """Return a writer of a file that consists of the parts."""
    return lambda path: write_parts(path, parts)


def lazy(parts: Callable[[], Iterable[bytes]]) -> Callable[[Path], None]:
    """Return a writer of parts that are made only when they are written."""
    return lambda path: write_parts(path, parts())


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(parts)


def sparse(size: int) -> Callable[[Path], None]:
    """Return a writer of a file of NUL bytes that uses no disk space."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)

    return write


def row(text: str, label: str = "a") -> bytes:
    """Return one row as a line of JSON."""
    return json.dumps({"text": text, "label": label}).encode() + b"\n"


def few_rows() -> bytes:
    """Return valid rows of two classes."""
    return b"".join(row(f"short text {number}", "ab"[number % 2]) for number in range(50))


def many_keys() -> bytes:
    """Return two million fields of an object in JSON."""
    return b",".join(b'"k%d":0' % number for number in range(2_000_000))


def squad(context: str, questions: Iterator[tuple[str, int]]) -> bytes:
    """Return SQuAD's JSON with this context and a short one. Each question is given with its number of answers."""
    entries = [
        {"id": str(number), "question": text, "answers": [{"text": context[:4], "answer_start": 0}] * answers}
        for number, (text, answers) in enumerate(questions)
    ]
    other = {"id": "other", "question": "what?", "answers": [{"text": "short", "answer_start": 2}]}
    paragraphs = [{"context": context, "qas": entries}, {"context": "a short context", "qas": [other]}]
    return json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}).encode()


def parquet(make: Callable[[Any], Any], **options: Any) -> Callable[[Path], None]:
    """Return a writer of the table that `make` returns, given pyarrow."""

    def write(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(make(pa), path, **options)

    return write


def feather(make: Callable[[Any], Any], compression: str) -> Callable[[Path], None]:
    """Return a writer of the table that `make` returns, given pyarrow, as Feather."""

    def write(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.feather as feather_files

        feather_files.write_feather(make(pa), path, compression=compression)

    return write


def one_text_in_many_rows(pa: Any) -> Any:
    """Return 4,000 rows with the same text of 1 MiB. Parquet stores it once."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 4_000, pa.int32()), pa.array(["ab " * (MIB // 3)]))
    return pa.table({"text": texts, "label": [0, 1] * 2_000})


def many_equal_rows(pa: Any) -> Any:
    """Return 20 million rows. Parquet stores a run of equal values as its length."""
    count = 20_000_000
    texts = pa.DictionaryArray.from_arrays(_zeros(pa, count), ["ab"])
    return pa.table({"text": texts, "label": _zeros(pa, count)})


def _zeros(pa: Any, count: int) -> Any:
    import numpy as np

    return pa.array(np.zeros(count, np.int8))


def compressed_texts(pa: Any) -> Any:
    """Return 1,000 texts of 1 MiB, which a codec compresses to a few kilobytes."""
    return pa.table({"text": ["ab " * (MIB // 3)] * 1_000, "label": [0, 1] * 500})


def equal_answers(pa: Any) -> Any:
    """Return one question with 2,000 answers of 1 MiB each, which Parquet stores once."""
    text = "ab " * (MIB // 3)
    many = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000, pa.int32()), pa.array([text]))
    texts = pa.ListArray.from_arrays(pa.array([0, 2_000], pa.int32()), many)
    starts = pa.array([[0] * 2_000], pa.list_(pa.int32()))
    answers = pa.StructArray.from_arrays([texts, starts], ["text", "answer_start"])
    return pa.table({"id": ["1"], "context": [text], "question": ["what?"], "answers": answers})


def long_lists(pa: Any) -> Any:
    """Return one question with 20 million starts of answers, stored as a run."""
    starts = pa.ListArray.from_arrays(pa.array([0, 20_000_000], pa.int32()), _zeros(pa, 20_000_000))
    answers = pa.StructArray.from_arrays([pa.array([["ab"]]), starts], ["text", "answer_start"])
    return pa.table({"id": ["1"], "context": ["ab"], "question": ["what?"], "answers": answers})


def many_columns(pa: Any) -> Any:
    """Return a table of 20,000 columns, of which none is needed."""
    return pa.table({f"column_{number}": [1] for number in range(20_000)})


def false_footer(path: Path) -> None:
    """Write a Parquet file that claims a footer of 2 GiB."""
    path.write_bytes(b"PAR1" + bytes(1_000) + (2**31 - 16).to_bytes(4, "little") + b"PAR1")


def bind_socket(path: Path) -> None:
    """Create a socket. Its name is short enough only relative to its folder."""
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.fchdir(here)
    os.close(here)
