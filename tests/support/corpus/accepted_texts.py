"""Cases of questions and of texts without labels, which are read."""

from __future__ import annotations

import json

import pyarrow as pa

from tests.support.corpus.files import (
    BOM,
    HALF,
    PACKS,
    REST,
    TEXTS,
    WORDS,
    arrow,
    arrow_table,
    json_lines,
    lines,
    parquet,
    questions,
    separated,
    squad,
    tabs,
)
from tests.support.corpus.reading import Case

QA = {"task": "question-answering"}
QUESTION_TABLE = pa.Table.from_pylist(questions())
AS_OBJECTS = [
    {
        **row,
        "answers": [
            {"text": text, "answer_start": start}
            for text, start in zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
        ],
    }
    for row in questions()
]
OBJECTS_TABLE = pa.Table.from_pylist(AS_OBJECTS)
QUESTION_LINES = "".join(json.dumps(row) + "\n" for row in questions()).encode()
QUESTION_CASES = {
    "squad v1": Case(files={"q.json": squad("1.1", answerable_only=True)}, **QA),
    "squad v2": Case(files={"q.json": squad("v2.0")}, **QA),
    "squad v2, indented": Case(files={"q.json": BOM + squad("v2.0", indent=1)}, **QA),
    "squad v2, packed": Case(files={"q.json.zst": PACKS[".zst"](squad("v2.0"))}, **QA),
    "squad, own validation": Case(
        files={"t.json": squad("v2.0"), "v.json": squad("1.1", answerable_only=True)},
        data={"validation": "v.json"},
        **QA,
    ),
    "squad as an array": Case(files={"q.json": json.dumps(questions()).encode()}, **QA),
    "squad as lines": Case(files={"q.jsonl": QUESTION_LINES}, **QA),
    "squad as objects": Case(files={"q.jsonl": "".join(json.dumps(row) + "\n" for row in AS_OBJECTS).encode()}, **QA),
    "squad in parquet": Case(files={"q.parquet": parquet(QUESTION_TABLE)}, **QA),
    "squad in parquet, objects": Case(files={"q.parquet": parquet(OBJECTS_TABLE)}, **QA),
    "squad in arrow": Case(files={"q.arrow": arrow(QUESTION_TABLE, stream=True, chunk=2)}, **QA),
    "squad in arrow, objects": Case(files={"q.arrow": arrow(OBJECTS_TABLE, stream=False, chunk=2)}, **QA),
}

LM = {"task": "causal-lm"}
WITH_BLANKS = {"text": [*TEXTS[:9], "", "  ", *TEXTS[9:]]}
TEXT_CASES = {
    **{f"txt{suffix}": Case(files={f"t.txt{suffix}": pack(lines(WORDS))}, **LM) for suffix, pack in PACKS.items()},
    "txt, CRLF and blank lines": Case(files={"t.txt": BOM + lines(WITH_BLANKS, "\r\n")}, **LM),
    "txt, no last line end": Case(files={"t.txt": lines(WORDS).rstrip(b"\n")}, **LM),
    "txt, utf-16": Case(files={"t.txt": lines(WORDS).decode().encode("utf-16")}, data={"encoding": "utf-16"}, **LM),
    "texts in jsonl": Case(files={"t.jsonl": json_lines(WITH_BLANKS)}, **LM),
    "texts in csv": Case(files={"t.csv": separated({**WITH_BLANKS, "n": range(len(TEXTS) + 2)}).encode()}, **LM),
    "texts in one column": Case(files={"t.csv": separated({"text": TEXTS}).encode()}, **LM),
    "texts in tsv": Case(files={"t.tsv": tabs({"n": range(len(TEXTS)), "text": TEXTS})}, **LM),
    "texts in parquet": Case(files={"t.parquet": parquet(arrow_table(WITH_BLANKS))}, **LM),
    "texts in arrow": Case(files={"t.arrow": arrow(arrow_table(WITH_BLANKS), stream=True)}, **LM),
    "texts of another column": Case(
        files={"t.jsonl": json_lines({"body": TEXTS, "text": ["not this"] * len(TEXTS)})},
        data={"columns": {"text": "body"}},
        **LM,
    ),
    "folder of txt": Case(files={"t/1.txt": lines(HALF), "t/2.txt": lines(REST)}, data={"train": "t"}, **LM),
}
