"""Preparation of labelled rows: class numbers, splits and errors."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.staging.prepared import prepared
from tests.support.staging.tables import ANIMALS, write
from training.contract.errors import InputError
from training.staging.rows.labels import Example, LabelSurvey
from training.staging.sources.request import Columns, Data
from training.staging.sources.sources import Table


def refused(folder: Path, labels_of_rows: list[Any], **data: Any) -> str:
    path = write(folder / "a.jsonl", [{"text": f"t{at}", "label": label} for at, label in enumerate(labels_of_rows)])
    with pytest.raises(InputError) as caught:
        prepared(Data(train=str(path), **data))
    return str(caught.value).replace(str(path), "FILE")


def test_words_are_numbered_in_alphabetical_order(tmp_path: Path) -> None:
    result = prepared(Data(train=str(write(tmp_path / "a.csv", ANIMALS))))
    assert result.label_names == ("cat", "dog")
    assert (len(result.train), len(result.validation)) == (8, 2)
    assert result.validation_classes == [0, 1]
    assert [("cat", "dog")[number] for number in result.train_classes] == [row.label for row in result.train]


def test_numbers_are_numbered_in_numeric_order_also_as_text(tmp_path: Path) -> None:
    rows = [{"text": "t", "label": label} for label in (10, 2, 10, 2, 5, 5)]
    for suffix in ("jsonl", "csv"):
        path = str(write(tmp_path / f"a.{suffix}", rows))
        result = prepared(Data(train=path, validation=path))
        assert result.label_names == ("2", "5", "10")
        assert result.train_classes == [2, 0, 2, 0, 1, 1]


def test_numbers_are_indexes_of_declared_names(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.jsonl", [{"text": "t", "label": label} for label in (2, 0, 2, 0)]))
    result = prepared(Data(train=path, validation=path, labels=("bad", "fair", "good")))
    assert result.label_names == ("bad", "fair", "good")
    assert result.train_classes == [2, 0, 2, 0]


def test_declared_numbers_are_names_and_not_indexes(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.jsonl", [{"text": "t", "label": label} for label in (1, 3, 1, 3)]))
    result = prepared(Data(train=path, validation=path, labels=("1", "2", "3")))
    assert result.train_classes == [0, 2, 0, 2]
    assert "label 0 is not in data.labels" in refused(tmp_path, [1, 0, 1, 0], labels=("1", "2"))


def test_blanks_around_a_label_are_ignored(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.jsonl", [{"text": "t", "label": label} for label in ("a ", "a", " b", "b")]))
    assert prepared(Data(train=path, validation=path)).label_names == ("a", "b")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", 1], "FILE line 2: label 1 has a different type than 'a' (FILE line 1)"),
        ([1, 0.5], "FILE line 2: label 0.5 must be a word or a whole number of at least 0"),
        ([True, False], "FILE line 1: label True must be a word"),
        ([0, -1], "FILE line 2: label -1 must be"),
        ([0, None], "FILE line 2: label null must be"),
        ([0, [1]], "FILE line 2: label a list must be"),
        ([0, float("nan")], "FILE line 2: label nan must be"),
        (["a", " "], "FILE line 2: column 'label' is empty"),
        (["1", "2.5"], "FILE line 2: label '2.5' must be a word or a whole number of at least 0"),
        (["-1", "1"], "FILE line 1: label '-1' must be"),
        (["a", "a", "a"], "FILE has only one class, 'a'; at least two are required"),
        (["a", "b"], "FILE has only one row per class, too few to set validation rows aside"),
        (["a", "\ud800"], "FILE line 2: column 'label' contains a NUL or an unpaired surrogate"),
    ],
)
def test_an_invalid_label_is_an_error_with_its_line(tmp_path: Path, labels: list[Any], message: str) -> None:
    assert refused(tmp_path, labels).startswith(message)


def test_an_undeclared_label_is_an_error(tmp_path: Path) -> None:
    message = refused(tmp_path, ["cat", "dgo", "dog", "cat"], labels=("cat", "dog"))
    assert message == "FILE line 2: label 'dgo' is not in data.labels ('cat', 'dog'). Did you mean 'dog'?"


def test_training_rows_with_one_of_several_declared_classes_are_an_error(tmp_path: Path) -> None:
    assert refused(tmp_path, ["cat"] * 4, labels=("cat", "dog")).startswith("FILE has only one class, 'cat'")


def test_a_validation_label_without_training_rows_is_an_error(tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv", ANIMALS)
    validation = write(tmp_path / "validation.csv", [*ANIMALS, {"text": "moo", "label": "cow"}])
    with pytest.raises(InputError) as caught:
        prepared(Data(train=str(train), validation=str(validation)))
    assert str(caught.value) == (f"{validation} line 12: label 'cow' is not in the training rows ('cat', 'dog').")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "line 1: column 'text' must be text, not null"),
        (7, "line 1: column 'text' must be text, not 7"),
        (["a"], "line 1: column 'text' must be text, not a list"),
        ("", "line 1: column 'text' is empty"),
        (" \n", "line 1: column 'text' is empty"),
        ("a\0b", "line 1: column 'text' contains a NUL"),
        ("\ud83d", "line 1: column 'text' contains a NUL or an unpaired surrogate"),
    ],
)
def test_an_invalid_text_is_an_error_with_its_line(tmp_path: Path, text: Any, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for label in "abab"), "ascii")
    with pytest.raises(InputError) as caught:
        prepared(Data(train=str(path)))
    assert str(caught.value).startswith(f"{path} {message}")


def test_a_pair_must_have_both_texts(tmp_path: Path) -> None:
    rows = [{"premise": "p", "hypothesis": "h" if at else "", "label": "ab"[at % 2]} for at in range(6)]
    path = write(tmp_path / "a.jsonl", rows)
    data = Data(train=str(path), columns=Columns(text="premise", text_pair="hypothesis"))
    with pytest.raises(InputError, match="line 1: column 'hypothesis' is empty"):
        prepared(data)
    path = write(path, rows[1:])
    assert [row.pair for row in prepared(data).train] == ["h"] * 3


def test_limits_keep_the_first_rows(tmp_path: Path) -> None:
    train = str(write(tmp_path / "train.csv", ANIMALS))
    result = prepared(Data(train=train, validation=train, train_rows=3, validation_rows=2))
    assert [row.number for row in result.train] == [2, 3, 4]
    assert [row.number for row in result.validation] == [2, 3]
    split = prepared(Data(train=train, train_rows=3, validation_rows=1))
    assert (len(split.train), len(split.validation)) == (3, 1)


def test_fewer_rows_than_a_global_batch_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ANIMALS)
    with pytest.raises(InputError) as caught:
        prepared(Data(train=str(path)), min_train_rows=9)
    assert str(caught.value) == (
        f"the global batch size is 9, but {path} has only 8 training rows; reduce batch_size or use more training rows"
    )


def split_labels(labels: Sequence[str], *, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Return the indexes of the (training, validation) rows of a split of rows with these labels."""
    rows = [Example(at, "t", None, label) for at, label in enumerate(labels)]
    survey = LabelSurvey(Table(name="s", unit="line", rows=iter([])), Data(train="s"))
    for row in rows:
        survey.add(row)
    split = survey.split(share, seed)
    assert split is not None
    is_validation = split.start()
    sides = [is_validation(row) for row in rows]
    assert sum(sides) == split.validation_rows
    return [at for at, side in enumerate(sides) if not side], [at for at, side in enumerate(sides) if side]


def test_a_split_worked_out_by_hand() -> None:
    # 20 % of 10 and of 5 rows: 2 and 1.
    labels = ["a"] * 10 + ["b"] * 5
    train, validation = split_labels(labels, share=0.2, seed=3)
    assert Counter(labels[at] for at in validation) == {"a": 2, "b": 1}
    assert Counter(labels[at] for at in train) == {"a": 8, "b": 4}


LABELS = st.lists(st.sampled_from("abc"), min_size=3).filter(lambda labels: len(set(labels)) < len(labels))


@given(LABELS, st.integers(0, 9))
def test_the_split_keeps_every_row_and_is_deterministic(labels: list[str], seed: int) -> None:
    train, validation = split_labels(labels, share=0.3, seed=seed)
    assert sorted(train + validation) == list(range(len(labels)))
    assert {labels[at] for at in train} == set(labels)
    assert (train, validation) == split_labels(labels, share=0.3, seed=seed)


@given(LABELS, st.integers(0, 9), st.floats(0.01, 0.99))
def test_rows_are_set_aside_as_by_earlier_versions(labels: list[str], seed: int, share: float) -> None:
    """Data that an earlier version staged keeps its key, so it must be split the same way."""
    rows_by_label: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        rows_by_label.setdefault(label, []).append(row)
    generator = random.Random(seed)
    aside: set[int] = set()
    for rows in rows_by_label.values():
        aside.update(generator.sample(rows, min(max(round(len(rows) * share), 1), len(rows) - 1)))
    assert split_labels(labels, share=share, seed=seed)[1] == sorted(aside)


def test_so_many_labels_that_they_are_texts_are_an_error(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.csv", [{"text": "t", "label": f"{at:0200000}"} for at in range(120)]))
    with pytest.raises(InputError, match=r"line 101: column 'label' has so many different labels \(99 up to here\)"):
        prepared(Data(train=path))
