"""Cases that are refused. Each `mentions` the number of the line, row or question, and what is wrong there."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tests.support.corpus.files import (
    PACKS,
    SIMPLE,
    arrow,
    arrow_table,
    json_array,
    json_lines,
    parquet,
    separated,
    squad,
)
from tests.support.corpus.reading import Case

JSONL, CSV = json_lines(SIMPLE), separated(SIMPLE).encode()
TABLE = arrow_table(SIMPLE)


def _file(name: str, content: bytes, *mentions: str, task: str = "classification", **data: Any) -> Case:
    return Case(files={name: content}, task=task, data=data, mentions=mentions)


def _lines(*rows: object) -> bytes:
    return JSONL + "".join(json.dumps(row) + "\n" for row in rows).encode()


def _squad(change: Callable[[dict[str, Any]], None]) -> bytes:
    document = json.loads(squad("v2.0"))
    change(document["data"][1]["paragraphs"][0])
    return json.dumps(document).encode()


def _wrong_start(paragraph: dict[str, Any]) -> None:
    paragraph["qas"][0]["answers"][0]["answer_start"] += 1


def _same_id(paragraph: dict[str, Any]) -> None:
    paragraph["qas"][0]["id"] = "007"


# Rows 1 to 12 are right: the wrong one is on line 13, or line 14 of a file with a header.
REFUSED = {
    "jsonl: cut line": _file("r.jsonl", JSONL + b'{"text": "a", "lab', "13"),
    "jsonl: list": _file("r.jsonl", JSONL + b"[1, 2]\n", "13"),
    "jsonl: number": _file("r.jsonl", JSONL + b"12\n", "13"),
    "jsonl: no label": _file("r.jsonl", _lines({"text": "a"}), "13", "label"),
    "jsonl: empty text": _file("r.jsonl", _lines({"text": "", "label": "cat"}), "13", "text"),
    "jsonl: empty second text": _file(
        "r.jsonl",
        b'{"premise": "p", "hypothesis": "h", "label": "a"}\n{"premise": "p", "hypothesis": "", "label": "b"}\n',
        "2",
        "column 'hypothesis' is empty",
        columns={"text": "premise", "text_pair": "hypothesis"},
    ),
    "jsonl: blank text": _file("r.jsonl", _lines({"text": " \t", "label": "cat"}), "13", "text"),
    "jsonl: null text": _file("r.jsonl", _lines({"text": None, "label": "cat"}), "13", "text"),
    "jsonl: object as text": _file("r.jsonl", _lines({"text": {"a": 1}, "label": "cat"}), "13", "text"),
    "jsonl: null label": _file("r.jsonl", _lines({"text": "a", "label": None}), "13", "label"),
    "jsonl: list as label": _file("r.jsonl", _lines({"text": "a", "label": ["cat"]}), "13", "label"),
    "jsonl: blank label": _file("r.jsonl", _lines({"text": "a", "label": " "}), "13", "label"),
    "jsonl: surrogate": _file("r.jsonl", JSONL + b'{"text": "\\ud83d", "label": "cat"}\n', "13", "text"),
    "jsonl: NUL": _file("r.jsonl", JSONL + b'{"text": "a\\u0000", "label": "cat"}\n', "13", "text"),
    "jsonl: raw NUL": _file("r.jsonl", JSONL + b'{"text": "a\0", "label": "cat"}\n', "13"),
    "jsonl: not UTF-8": _file("r.jsonl", JSONL + b'{"text": "caf\xe9", "label": "cat"}\n', "13", "UTF-8"),
    "jsonl: UTF-16": _file("r.jsonl", JSONL.decode().encode("utf-16"), "utf-16"),
    "jsonl: array": _file("r.jsonl", json_array(SIMPLE), "1"),
    "jsonl: table by columns": _file("r.jsonl", b'{"text": {"0": "a"}, "label": {"0": "b"}}', "1"),
    "jsonl: wrong column": _file("r.jsonl", JSONL, "1", "body", columns={"text": "body"}),
    "jsonl: unknown label": _file(
        "r.jsonl", _lines({"text": "a", "label": "caat"}), "13", "caat", labels=["cat", "dog", "eel"]
    ),
    "jsonl: label missing in the map": _file(
        "r.jsonl", _lines({"text": "a", "label": "ox"}), "13", "ox", label_map={"pet": ["cat", "dog"], "fish": ["eel"]}
    ),
    "jsonl: one class": _file("r.jsonl", b'{"text": "a", "label": "x"}\n' * 9, "x"),
    "jsonl: empty": _file("r.jsonl", b""),
    "jsonl: only blank lines": _file("r.jsonl", b"\n\n"),
    "json: cut": _file("r.json", json_array(SIMPLE)[:-9]),
    "json: no column": _file(
        "r.json", json_array({**SIMPLE, "label": SIMPLE["label"]})[:-1] + b', {"text": "a"}]', "13", "label"
    ),
    "json: more behind the array": _file("r.json", json_array(SIMPLE) + b" []"),
    "csv: too few fields": _file("r.csv", CSV + b"alone\n", "14"),
    "csv: too many fields": _file("r.csv", CSV + b"a,cat,b\n", "14"),
    "csv: open quote": _file("r.csv", CSV + b'"open,cat\n', "14"),
    "csv: text after a quote": _file("r.csv", CSV + b'"a"b,cat\n', "14"),
    "csv: column twice": _file("r.csv", b"text,label,text\na,b,c\n", "1", "text"),
    "csv: wrong column": _file("r.csv", CSV, "1", "body", columns={"text": "body"}),
    "csv: no header": _file("r.csv", b"some text,cat\nmore text,dog\n", "1", "text"),
    "csv: empty cell": _file("r.csv", CSV + b",cat\n", "14", "text"),
    "csv: empty label": _file("r.csv", CSV + b"a,\n", "14", "label"),
    "csv: not UTF-8": _file("r.csv", CSV + b"caf\xe9,cat\n", "14", "UTF-8"),
    "csv: UTF-8 as latin-1": _file(
        "r.csv", "text,label\ncafé,a\nthé,b\n".encode(), "UTF-8", "encoding", encoding="latin-1"
    ),
    "csv: not cp1252": _file("r.csv", b"text,label\n\x81,a\nb,b\n", "cp1252", encoding="cp1252"),
    "csv: UTF-16": _file("r.csv", CSV.decode().encode("utf-16"), "utf-16"),
    "csv: fraction as label": _file("r.csv", b"text,label\na,1\nb,2\nc,1.5\n", "4", "1.5"),
    "csv: only a header": _file("r.csv", b"text,label\n"),
    "csv: a file of Excel": _file("r.csv", b"PK\x03\x04\x14\0\0"),
    "csv: really gzip": _file("r.csv", gzip.compress(CSV, mtime=0), "gz"),
    "tsv: too many fields": _file("r.tsv", b"text\tlabel\na\tb\nc\td\te\n", "3"),
    **{
        f"truncated {suffix}": _file(f"r.jsonl{suffix}", PACKS[suffix](JSONL)[:-12])
        for suffix in (".gz", ".bz2", ".zst")
    },
    **{f"not {suffix}": _file(f"r.jsonl{suffix}", b"text") for suffix in (".gz", ".bz2", ".zst")},
    "wrong line in gzip": _file("r.jsonl.gz", gzip.compress(JSONL + b"{\n", mtime=0), "13"),
    "xz": _file("r.jsonl.xz", b"x"),
    "zip": _file("r.csv.zip", b"PK\x03\x04"),
    "Excel": _file("r.xlsx", b"PK\x03\x04"),
    "pickle": _file("r.pkl", b"x"),
    "unknown suffix": _file("r.dat", CSV, ".dat"),
    "parquet: cut": _file("r.parquet", parquet(TABLE)[:-40]),
    "parquet: text": _file("r.parquet", CSV),
    "parquet: wrong column": _file("r.parquet", parquet(TABLE), "body", columns={"text": "body"}),
    "parquet: column twice": _file(
        "r.parquet", parquet(pa.table([["a"], ["b"], ["c"]], names=["text", "label", "text"])), "text"
    ),
    "parquet: null text": _file(
        "r.parquet", parquet(arrow_table({"text": ["a", "b", None], "label": [0, 1, 0]})), "3", "text"
    ),
    "parquet: null label": _file(
        "r.parquet", parquet(arrow_table({"text": ["a", "b", "c"], "label": [0, 1, None]})), "3"
    ),
    "arrow: cut": _file("r.arrow", arrow(TABLE, stream=True)[:-200]),
    "arrow: text": _file("r.arrow", CSV),
    "arrow: wrong column": _file("r.arrow", arrow(TABLE, stream=True), "body", columns={"text": "body"}),
    "arrow: null text": _file(
        "r.arrow", arrow(arrow_table({"text": ["a", "b", None], "label": [0, 1, 0]}), stream=True), "3"
    ),
    "feather: version 1": _file("r.feather", b"FEA1" + b"\0" * 99),
    "missing file": Case(files={"r.csv": CSV}, data={"train": "s.csv"}),
    "empty folder": Case(files={"x/_SUCCESS": b""}, data={"train": "x"}),
    "folder of two formats": Case(files={"x/a.csv": CSV, "x/b.jsonl": JSONL}, data={"train": "x"}),
    "no file matches": Case(files={"x/a.csv": CSV}, data={"train": "x/*.jsonl"}),
    "second shard": Case(
        files={"x/a.csv": CSV, "x/b.csv": CSV + b"alone\n"}, data={"train": "x"}, mentions=("b.csv", "14")
    ),
    "shard without a header": Case(
        files={"x/a.csv": CSV, "x/b.csv": CSV.split(b"\n", 1)[1]}, data={"train": "x"}, mentions=("b.csv", "1", "text")
    ),
    "unknown label in the validation file": Case(
        files={"t.csv": CSV, "v.csv": CSV + b"a,ox\n"}, data={"validation": "v.csv"}, mentions=("v.csv", "14", "ox")
    ),
    "squad: wrong start": _file("q.json", _squad(_wrong_start), "5", "007", task="question-answering"),
    "squad: id twice": _file("q.json", _squad(_same_id), "5", "007", task="question-answering"),
    "squad: no context": _file(
        "q.json", _squad(lambda each: each.pop("context")), "context", task="question-answering"
    ),
    "squad: start is text": _file(
        "q.json",
        _squad(lambda each: each["qas"][0]["answers"][0].update(answer_start="0")),
        "data[1].paragraphs[0].qas[0].answers[0].answer_start must be a whole",
        task="question-answering",
    ),
    "squad: start is true": _file(
        "q.json",
        _squad(lambda each: each["qas"][0]["answers"][0].update(answer_start=True)),
        "data[1].paragraphs[0].qas[0].answers[0].answer_start must be a whole",
        task="question-answering",
    ),
    "squad: no data": _file("q.json", b'{"version": "1.1"}', "data", task="question-answering"),
    "squad: cut": _file("q.json", squad("v2.0")[:-30], task="question-answering"),
    "questions without answers": _file(
        "q.jsonl", b'{"id": "a", "context": "b", "question": "c"}\n', "1", "answers", task="question-answering"
    ),
    "questions: a start is missing": _file(
        "q.jsonl",
        b'{"id": "a", "context": "b", "question": "c", "answers": {"text": ["b"], "answer_start": []}}\n',
        "1",
        "answers has 1 texts, but 0 values of answer_start",
        task="question-answering",
    ),
    "questions in csv": _file(
        "q.csv",
        b"id,context,question,answers\na,b,c,d\n",
        "2",
        "answers must contain two lists, 'text' and 'answer_start', not 'd'",
        task="question-answering",
    ),
    "text with labels": _file("t.txt", b"a\nb\n"),
    "text: not UTF-8": _file("t.txt", b"a\ncaf\xe9\n", "2", "UTF-8", task="causal-lm"),
    "text: only blank lines": _file("t.txt", b" \n\n", task="causal-lm"),
    "text: one line": _file("t.txt", b"a\n", task="causal-lm"),
}
"""Cases by name."""
