"""Data files that try to use all memory or time, and what staging must answer."""

from __future__ import annotations

import bz2
import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.attacks.hostile_content import (
    MIB,
    WORDS,
    bind_socket,
    compressed_texts,
    content,
    equal_answers,
    false_footer,
    feather,
    few_rows,
    lazy,
    long_lists,
    many_columns,
    many_equal_rows,
    one_text_in_many_rows,
    parquet,
    repeated,
    repeated_gzip,
    row,
    sparse,
    squad,
    wide_window,
    write_parts,
    zstandard,
)

CLASSIFICATION, QUESTIONS, TEXTS = "classification", "question-answering", "causal-lm"


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
        "text.jsonl",
        lambda path: write_parts(path, [row(WORDS * 400_000), few_rows()]),
        "split the text into several rows",
    ),
    HostileFile(
        "label.jsonl", lambda path: write_parts(path, [row("a", "b" * (10 * MIB)), few_rows()]), "column 'label' has"
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
        lambda path: write_parts(path, [squad(WORDS * 34_000, (("what?", 1) for _ in range(2_000)))]),
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
        lambda path: write_parts(path, [squad("some words", iter([("what?", 400_000)]))]),
        None,
        QUESTIONS,
    ),
    HostileFile(
        "windows.json",
        lambda path: write_parts(path, [squad(WORDS * 30_000, iter([("who " * 252, 1)]))]),
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
    HostileFile("text-at-limit.jsonl", lambda path: write_parts(path, [row("a " * 750_000), few_rows()]), None),
    HostileFile("text-at-limit.txt", content(b"a " * 749_999 + b"\n", b"a text\n" * 1_000), None, TEXTS),
    HostileFile("rows-at-limit.jsonl.gz", repeated_gzip(few_rows(), row("ab") * 1_000, FULL_ROWS // 1_000), None),
    HostileFile("texts-at-limit.txt.gz", repeated_gzip(b"", b"a b c d " * 1_250 + b"\n", 4_100), None, TEXTS),
    HostileFile(
        "contexts-at-limit.json",
        lambda path: write_parts(path, [squad(WORDS * 34_000, (("what?", 1) for _ in range(40)))]),
        None,
        QUESTIONS,
    ),
)
