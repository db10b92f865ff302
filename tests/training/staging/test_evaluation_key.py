"""The evaluation key identifies the validation rows, independently of the training rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.staging.tables import ANIMALS, MODEL, write
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage


def key(folder: Path, *, train: str, validation: str | None = None, **fields: Any) -> str:
    """Return the evaluation key of data files in `folder`."""
    data = {"train": str(folder / train), "validation": str(folder / validation) if validation else None}
    request = {"model": MODEL, "max_length": 16, **fields}
    return stage(
        StagingRequest(data=Data(**{**data, **request.pop("data", {})}), **request), folder / "home"
    ).evaluation_key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "old.jsonl", ANIMALS)
    write(tmp_path / "new.jsonl", [*ANIMALS, *ANIMALS[:2]])
    write(tmp_path / "dev.jsonl", ANIMALS[:4])
    return tmp_path


def test_more_training_rows_do_not_change_the_key(folder: Path) -> None:
    old = key(folder, train="old.jsonl", validation="dev.jsonl")
    assert key(folder, train="new.jsonl", validation="dev.jsonl") == old
    (folder / "dev.jsonl").rename(folder / "other.jsonl")
    assert key(folder, train="old.jsonl", validation="other.jsonl", data={"train_rows": 3}, max_length=24) == old


@pytest.mark.parametrize(
    "change",
    [
        {"validation": "old.jsonl"},
        {"data": {"validation_rows": 2}},
        {"data": {"labels": ("cat", "dog")}},
        {"data": {"label_map": {"pet": ("cat",), "friend": ("dog",)}}},
    ],
)
def test_different_validation_rows_or_labels_change_the_key(folder: Path, change: dict[str, Any]) -> None:
    fields = {"train": "old.jsonl", "validation": "dev.jsonl"}
    assert key(folder, **fields) != key(folder, **{**fields, **change})


def test_the_key_of_split_off_rows_depends_on_the_training_data(folder: Path) -> None:
    old = key(folder, train="old.jsonl")
    assert key(folder, train="new.jsonl") != old
    assert key(folder, train="old.jsonl", data={"split_seed": 1}) != old
    assert key(folder, train="old.jsonl", data={"validation_share": 0.4}) != old
    # With a limit on training rows, only the first rows are split.
    limited = key(folder, train="old.jsonl", data={"train_rows": 4})
    assert len({old, limited, key(folder, train="old.jsonl", data={"train_rows": 6})}) == 3


def test_the_key_of_causal_lm_depends_on_the_tokens(folder: Path) -> None:
    fields = {"train": "old.jsonl", "validation": "dev.jsonl", "task": "causal-lm", "model": None}
    fields |= {"weights": "random", "model_type": "gpt2", "tokenizer": MODEL}
    assert key(folder, **fields, max_length=8) != key(folder, **fields, max_length=16)
    assert key(folder, **fields, max_length=8) == key(folder, **{**fields, "train": "new.jsonl"}, max_length=8)
