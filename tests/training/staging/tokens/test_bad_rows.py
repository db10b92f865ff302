"""All bad rows in one message, and columns whose values are lists or objects."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from training.contract.errors import InputError
from training.job.processes.reporting import BadData
from training.job.tasks import SQUAD_COLUMNS, TASKS
from training.job.tasks.checks import checked_list
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import Tables, file_table, find_data_files
from training.staging.tokens.rows import MAX_BAD_ROWS, Selection, select


def selection(task: str, train: Path, **data: Any) -> Selection:
    request = StagingRequest(task=task, data=Data(train=str(train), **data), max_length=8)
    files, columns = find_data_files(str(train)), list(TASKS[task].columns(request.data.columns))
    return select(lambda: Tables(train=file_table(files, columns, request.data), validation=None), request, Progress())


def refused(file: Path, rows: list[dict[str, Any]]) -> str:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError) as caught:
        selection("classification", file)
    return str(caught.value).replace(str(file), "FILE")


def test_all_bad_rows_stand_in_one_message(tmp_path: Path) -> None:
    good, file = {"text": "a", "label": "x"}, tmp_path / "a.jsonl"
    empty, number, real = {**good, "text": " "}, {**good, "text": 7.5}, {**good, "label": {}}
    way = "data.skip_bad_rows: true leaves out the rows with an empty or null value"
    assert refused(file, [good, empty]) == f"FILE line 2: column 'text' is empty; {way} (1)"
    assert refused(file, [empty, good, number, empty, real, *[empty] * 7]) == (
        "11 bad rows: FILE line 1: column 'text' is empty (also 4, 6, 7, 8, 9 and 3 more); "
        "FILE line 3: column 'text' must be text, not 7.5; "
        f"FILE line 5: label a dict must be a word, a number, true or false; {way} (9)"
    )
    many = refused(file, [{**good, "text": at + 0.5} for at in range(MAX_BAD_ROWS + 5)])
    assert many.startswith("1,000 or more bad rows: FILE line 1: column 'text' must be text, not 0.5; FILE line 2")
    assert many.endswith("FILE line 5: column 'text' must be text, not 4.5; and 995 more problems")


def test_lists_and_objects_are_read_from_every_format(tmp_path: Path) -> None:
    answers = {"text": ["Rome"], "answer_start": [3]}
    rows = [dict(zip(SQUAD_COLUMNS, (f"q{at}", f"In Rome {at}", "Where?", answers), strict=True)) for at in range(2)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    with (tmp_path / "a.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerows([SQUAD_COLUMNS, *([*list(row.values())[:3], json.dumps(row["answers"])] for row in rows)])
    details = {
        path.suffix: [row.detail for row in selection("question-answering", path, validation_share=0.5).train.read()]
        for path in tmp_path.iterdir()
    }
    assert details == {suffix: [(("Rome", 3),)] for suffix in (".jsonl", ".parquet", ".csv")}


def test_a_list_in_a_table_is_json() -> None:
    assert checked_list("a.csv line 2", "tags", '["a", "b"]') == checked_list("", "tags", ["a", "b"]) == ["a", "b"]
    assert checked_list("", "tags", "['a', \"it's\"]") == ["a", "it's"]  # as pandas writes it
    assert checked_list("", "tags", "[0 1\n 0]") == [0, 1, 0]  # as NumPy writes it
    hint = r"column 'tags' must be a list, not '\[a'; a table holds a list as JSON, such as \[\"a\", \"b\"\]$"
    with pytest.raises(BadData, match=rf"a\.csv line 2: {hint}"):
        checked_list("a.csv line 2", "tags", "[a")
    with pytest.raises(BadData, match=r"must be a list, not null$"):
        checked_list("a.jsonl line 2", "tags", None)
