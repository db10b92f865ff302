"""Data files that try to use all memory or time: small ones that contain gigabytes, and malformed large ones."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MIB = 1024**2
CLASSIFICATION, QUESTIONS, TEXTS = "classification", "question-answering", "causal-lm"
WORDS = "some words and more of them, "


@dataclass(frozen=True)
class HostileFile:
    """A file, and what staging must answer."""

    name: str
    """File name. Its suffix determines the reader."""
    write: Callable[[Path], None]
    """Write the file."""
    message: str | None
    """Part of the error message; None if the file is valid and must be staged."""
    task: str = CLASSIFICATION


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
    return lambda path: _write(path, parts)


def lazy(parts: Callable[[], Iterable[bytes]]) -> Callable[[Path], None]:
    """Return a writer of parts that are made only when they are written."""
    return lambda path: _write(path, parts())


def _write(path: Path, parts: Iterable[bytes]) -> None:
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


TOO_MUCH = "but contains more than 40 MiB"

FULL_ROWS = 40 * MIB // 130

HOSTILE_FILES = (
    HostileFile("newlines.jsonl.gz", repeated_gzip(few_rows(), b"\n" * (8 * MIB), 128), TOO_MUCH),
    HostileFile("newlines.txt.gz", repeated_gzip(b"a text\n", b"\n" * (8 * MIB), 128), TOO_MUCH, TEXTS),
    HostileFile("newlines.csv.gz", repeated_gzip(b"text,label\na,b\n", b"\n" * (8 * MIB), 128), TOO_MUCH),
    HostileFile("zeros.jsonl.gz", repeated_gzip(b"", bytes(64 * MIB), 200), "is longer than 32 MiB"),
    HostileFile("zeros.json.gz", repeated_gzip(b"", bytes(64 * MIB), 200), "is not JSON", QUESTIONS),
    HostileFile("zeros.parquet.gz", repeated_gzip(b"", bytes(64 * MIB), 200), "but contains more than"),
    HostileFile("blanks.jsonl.gz", repeated_gzip(b"{", b" " * (8 * MIB), 128, b"}"), "is longer than 32 MiB"),
    HostileFile("rows.jsonl.gz", repeated_gzip(b"", row("ab") * 100_000, 100), TOO_MUCH),
    HostileFile("rows.csv.gz", repeated_gzip(b"text,label\n", b"a,b\n" * MIB, 100), TOO_MUCH),
    HostileFile("rows.tsv.gz", repeated_gzip(b"text\tlabel\n", b"a\tb\n" * MIB, 100), TOO_MUCH),
    HostileFile("texts.txt.gz", repeated_gzip(b"", b"a b c d e\n" * MIB, 100), TOO_MUCH, TEXTS),
    HostileFile("newlines.csv.bz2", repeated(bz2.compress, b"text,label\na,b\n", b"\n" * (8 * MIB), 128), TOO_MUCH),
    HostileFile("zeros.jsonl.bz2", repeated(bz2.compress, b"", bytes(64 * MIB), 200), "is longer than 32 MiB"),
    HostileFile("rows.json.bz2", repeated(bz2.compress, b"[", b"{}," * MIB, 100, b"{}]"), "has no column 'text'"),
    HostileFile("newlines.csv.zst", repeated(zstandard, b"text,label\na,b\n", b"\n" * (8 * MIB), 128), TOO_MUCH),
    HostileFile("zeros.jsonl.zst", repeated(zstandard, b"", bytes(64 * MIB), 200), "is longer than 32 MiB"),
    HostileFile("zeros.arrow.zst", repeated(zstandard, b"", bytes(64 * MIB), 200), "but contains more than"),
    HostileFile("rows.jsonl.zst", repeated(zstandard, b"", row("ab") * 100_000, 100), TOO_MUCH),
    HostileFile("window.jsonl.zst", wide_window, "is not a valid Zstandard file"),
    HostileFile("cut.jsonl.bz2", content(bz2.compress(few_rows())[:-12]), "is a truncated bzip2 file"),
    HostileFile("cut.jsonl.zst", content(zstandard(few_rows())[:-2]), "is a truncated Zstandard file"),
    HostileFile("inside.jsonl.gz", content(gzip.compress(gzip.compress(few_rows()))), "give its name the suffix .gz"),
    HostileFile("cut.jsonl.gz", content(gzip.compress(few_rows())[:-12]), "is a truncated gzip file"),
    HostileFile("checksum.jsonl.gz", content(gzip.compress(few_rows())[:-8], bytes(8)), "is not a valid gzip file"),
    HostileFile("brackets.jsonl", content(b"[" * (30 * MIB), b"\n"), "values, but 30 MiB of text may have"),
    HostileFile(
        "lists.jsonl", content(b'{"text": [', b"[]," * (8 * MIB), b"[]]}\n"), "values, but 24 MiB of text may have"
    ),
    HostileFile(
        "objects.jsonl", content(b'{"text": [', b"{}," * (8 * MIB), b"{}]}\n"), "values, but 24 MiB of text may have"
    ),
    HostileFile("deep.jsonl", content(b'{"a":' * 100_000, b"1", b"}" * 100_000), "is not JSON"),
    HostileFile(
        "keys.jsonl",
        lazy(lambda: [b"{", b",".join(b'"k%d":0' % n for n in range(2_000_000)), b"}\n"]),
        "has no column 'text'",
    ),
    HostileFile("key.jsonl", content(b'{"', b"k" * (20 * MIB), b'": 1}\n'), "has no column 'text'"),
    HostileFile("number.jsonl", content(b'{"text": "a", "label": ', b"9" * (10 * MIB), b"}\n"), "is not JSON"),
    HostileFile(
        "exponent.jsonl", content(b'{"text": "a", "label": 1e999999999}\n'), "must be a word or a whole number"
    ),
    HostileFile("surrogate.jsonl", content(b'{"text": "\\ud800", "label": 1}\n'), "unpaired surrogate"),
    HostileFile(
        "text.jsonl", lambda path: _write(path, [row(WORDS * 400_000), few_rows()]), "split the text into several rows"
    ),
    HostileFile(
        "label.jsonl", lambda path: _write(path, [row("a", "b" * (10 * MIB)), few_rows()]), "column 'label' has"
    ),
    HostileFile("line.txt", content(WORDS.encode() * 700_000), "split the text into several rows", TEXTS),
    HostileFile("endless.jsonl", content(b"{", b" " * (200 * MIB)), "is longer than 32 MiB"),
    HostileFile(
        "emoji.jsonl",
        content(b'{"text": "', "😀".encode() * (7 * MIB), b'", "label": 1}\n'),
        "split the text into several rows",
    ),
    HostileFile("sparse.jsonl", sparse(1024 * MIB), "is longer than 32 MiB"),
    HostileFile("utf16.csv", content(("text,label\n" + "a,b\n" * MIB).encode("utf-16")), "set data.encoding to utf-16"),
    HostileFile("columns.csv", content(b"text,label", b"," * (30 * MIB), b"\n"), "values, but 30 MiB of text may have"),
    HostileFile("quote.csv", content(b'text,label\n"', b"never closed\n" * (15 * MIB)), "is malformed"),
    HostileFile("field.csv", content(b'text,label\n"', b"a" * (40 * MIB), b'",b\n'), "is longer than 32 MiB"),
    HostileFile("returns.csv", content(b"text,label\r", b"a,b\r" * (10 * MIB)), "is longer than 32 MiB"),
    HostileFile(
        "context.json",
        lambda path: _write(path, [squad(WORDS * 34_000, (("what?", 1) for _ in range(2_000)))]),
        "but contains more than",
        QUESTIONS,
    ),
    HostileFile(
        "paragraphs.json",
        content(b'{"data": [{"paragraphs": [', b"{}," * (8 * MIB), b"{}]}]}"),
        "values, but",
        QUESTIONS,
    ),
    HostileFile("nested.json", content(b'{"data": ', b"[" * (20 * MIB)), "is not JSON", QUESTIONS),
    HostileFile(
        "answers.json",
        lambda path: _write(path, [squad("some words", iter([("what?", 400_000)]))]),
        None,
        QUESTIONS,
    ),
    HostileFile(
        "windows.json",
        lambda path: _write(path, [squad(WORDS * 30_000, iter([("who " * 252, 1)]))]),
        "the windows up to here contain each token",
        QUESTIONS,
    ),
    HostileFile("repeated.parquet", parquet(one_text_in_many_rows), TOO_MUCH),
    HostileFile("rows.parquet", parquet(many_equal_rows), TOO_MUCH),
    HostileFile("compressed.parquet", parquet(compressed_texts, use_dictionary=False, compression="zstd"), TOO_MUCH),
    HostileFile("answers.parquet", parquet(equal_answers), TOO_MUCH, QUESTIONS),
    HostileFile("lists.parquet", parquet(long_lists), TOO_MUCH, QUESTIONS),
    HostileFile("columns.parquet", parquet(many_columns), "has no column 'text'"),
    HostileFile("footer.parquet", false_footer, "is not a valid Parquet file"),
    HostileFile("repeated.feather", feather(one_text_in_many_rows, "uncompressed"), TOO_MUCH),
    HostileFile("rows.feather", feather(many_equal_rows, "zstd"), TOO_MUCH),
    HostileFile("compressed.feather", feather(compressed_texts, "zstd"), TOO_MUCH),
    HostileFile("answers.feather", feather(equal_answers, "lz4"), TOO_MUCH, QUESTIONS),
    HostileFile("values.json", content(b'[{"text": [', b"{}," * (8 * MIB), b"{}]}]"), "values, but"),
    HostileFile("string.json", content(b'[{"text": "', b"a" * (200 * MIB)), "has a value of more than"),
    HostileFile("pipe.jsonl", os.mkfifo, "is not a regular file"),
    HostileFile("socket.jsonl", bind_socket, "is not a regular file"),
    HostileFile("device.jsonl", lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
    HostileFile("loop.jsonl", lambda path: path.symlink_to(path.name), "is a link to nothing"),
    # The largest content that is accepted.
    HostileFile("text-at-limit.jsonl", lambda path: _write(path, [row("a " * 750_000), few_rows()]), None),
    HostileFile("text-at-limit.txt", content(b"a " * 749_999 + b"\n", b"a text\n" * 1_000), None, TEXTS),
    HostileFile("rows-at-limit.jsonl.gz", repeated_gzip(few_rows(), row("ab") * 1_000, FULL_ROWS // 1_000), None),
    HostileFile("texts-at-limit.txt.gz", repeated_gzip(b"", b"a b c d " * 1_250 + b"\n", 4_100), None, TEXTS),
    HostileFile(
        "contexts-at-limit.json",
        lambda path: _write(path, [squad(WORDS * 34_000, (("what?", 1) for _ in range(40)))]),
        None,
        QUESTIONS,
    ),
)
