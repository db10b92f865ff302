"""Write tables to bytes in every format, the same bytes each time."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from tests.support.staging.tables import zstandard

Columns = Mapping[str, Sequence[Any]]
"""Values of each column."""

TEXTS = (
    *("007", "2020-01-01", "2020-01-01T12:00:00Z", "NaN", "nan", "null", "None", "NA", "N/A", "true", "1e5", "1_000"),
    *(
        "-0",
        "0x10",
        "3.0",
        "1,5",
        "  blanks around  ",
        'quotes "inside"',
        '"all quoted"',
        "comma, inside",
        "semi; pipe|",
    ),
    *("back\\slash \\n \\u0041", "é e\u0301 ﬁ", "日本語 текст עברית", "😀👩‍👩‍👧", "zero\u200bwidth, \ufeff inside"),
    *("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg", "<b>html</b> &amp;", "#comment", "=1+1", "'single'", "\u00a0nbsp\u00a0"),
    *("%s {0} $HOME `x`", "long " * 40_000, "x", "[1, 2]", '{"a": 1}', "NULL", "#N/A", "-1.#IND", "1.0000000000000001"),
    *("12345678901234567890", "False", "sep=;", "inf"),
)
"""Texts that a reader may take for something else, without tabs and line ends."""
MULTILINE = ("tab\tinside", "two\nlines", "cr\r\nlf", "lone\rcr", "\nblank line first")
LABELS = ("NA", "yes", "null", "007", "no way")
WORDS: Columns = {"text": TEXTS, "label": [LABELS[at % 5] for at in range(len(TEXTS))]}
"""A table that all formats can hold."""
ALL_TEXTS = (*TEXTS, *MULTILINE)
EVERYTHING: Columns = {"text": ALL_TEXTS, "label": [LABELS[at % 5] for at in range(len(ALL_TEXTS))]}
"""A table with line ends in its texts."""
LATIN: Columns = {"text": ["café", "naïve £5", "Größe", "plain", "ÿ", "ça va"], "label": ["à", "b", "à", "b", "à", "b"]}
SIMPLE: Columns = {
    "text": [f"row {at} of a small table" for at in range(12)],
    "label": [("cat", "dog", "eel")[at % 3] for at in range(12)],
}
BOM = b"\xef\xbb\xbf"
HALF = {name: values[:6] for name, values in SIMPLE.items()}
REST = {name: values[6:] for name, values in SIMPLE.items()}
PAIRS: Columns = {
    "premise": [f"the sky is {at}" for at in range(8)],
    "hypothesis": [f"it rains {at}" for at in range(8)],
    "gold": ["-" if at == 3 else ("entails", "neutral")[at % 2] for at in range(8)],
}

Pack = Callable[[bytes], bytes]
PACKS: Mapping[str, Pack] = {
    "": bytes,
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".bz2": bz2.compress,
    ".zst": zstandard,
}
"""Compression by suffix."""


def rows(table: Columns) -> list[dict[str, Any]]:
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def json_lines(table: Columns, end: str = "\n", *, ascii_only: bool = False) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=ascii_only) + end for row in rows(table)).encode()


def json_array(table: Columns, indent: int | None = None) -> bytes:
    return json.dumps(rows(table), indent=indent, ensure_ascii=False).encode()


def separated(table: Columns, delimiter: str = ",", *, end: str = "\n", quote_all: bool = False) -> str:
    """Return a table as CSV."""
    special = {delimiter, '"', "\r", "\n"}

    def field(value: Any) -> str:
        text = str(value)
        return '"' + text.replace('"', '""') + '"' if quote_all or special & {*text} else text

    lines = [list(table), *zip(*table.values(), strict=True)]
    return "".join(delimiter.join(map(field, line)) + end for line in lines)


def tabs(table: Columns, end: str = "\n") -> bytes:
    """Return a table as TSV, in which a quotation mark is a character."""
    lines = [list(table), *zip(*table.values(), strict=True)]
    return "".join("\t".join(map(str, line)) + end for line in lines).encode()


def lines(table: Columns, end: str = "\n") -> bytes:
    """Return the texts as plain text."""
    return "".join(str(text) + end for text in table["text"]).encode()


def arrow_table(table: Columns, **types: pa.DataType) -> pa.Table:
    return pa.table({name: pa.array(list(values), types.get(name)) for name, values in table.items()})


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return bytes(sink.getvalue().to_pybytes())


def arrow(table: pa.Table, *, stream: bool, chunk: int = 7, codec: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return bytes(sink.getvalue().to_pybytes())


def feather(table: pa.Table, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    pyarrow.feather.write_feather(table, sink, compression=codec)
    return bytes(sink.getvalue().to_pybytes())


CONTEXTS = (
    "  The Denver Broncos won 24–10. 😀 They won again.",
    "À l'été 1858, Marie appeared in Lourdes.\nA second line.",
    "Numbers such as 007 and NaN occur in texts.",
    "This context has no answer at all.",
    "A fifth context, so that some can be set aside.",
)
QUESTIONS: Sequence[tuple[str, int, str, Sequence[str]]] = (
    ("007", 0, "  Who won?", ("The Denver Broncos", "Denver Broncos")),
    ("1e5", 0, "Which face?", ("😀",)),
    ("2020-01-01", 1, "When?", ("été 1858",)),
    ("null", 1, "", ("A second line.",)),
    ("NaN", 2, 'Which "numbers"?', ("007", "NaN")),
    ("56be4db0acb8001400a502ec", 3, "None?", ()),
    ("id é", 4, "Which one?", ("fifth",)),
)
"""Id, number of the context, question and answers."""


def questions() -> list[dict[str, Any]]:
    """Return the questions with the columns of the Hub's `squad`."""
    return [
        {
            "id": name,
            "title": "t",
            "context": CONTEXTS[at],
            "question": question,
            "answers": {"text": list(answers), "answer_start": [CONTEXTS[at].index(each) for each in answers]},
        }
        for name, at, question, answers in QUESTIONS
    ]


def squad(version: str, *, answerable_only: bool = False, indent: int | None = None) -> bytes:
    """Return the questions as SQuAD's JSON. Version 2 marks questions without an answer."""
    paragraphs: list[dict[str, Any]] = [{"context": context, "qas": []} for context in CONTEXTS]
    for row in questions():
        pairs = zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
        entry = {"id": row["id"], "question": row["question"]}
        entry["answers"] = [{"text": text, "answer_start": start} for text, start in pairs]
        if version == "v2.0":
            entry |= {"is_impossible": not entry["answers"], "plausible_answers": []}
        if entry["answers"] or not answerable_only:
            paragraphs[CONTEXTS.index(row["context"])]["qas"].append(entry)
    articles = [{"title": "A", "paragraphs": paragraphs[:2]}, {"title": "B", "paragraphs": paragraphs[2:]}]
    return json.dumps({"version": version, "data": articles}, indent=indent, ensure_ascii=False).encode()
