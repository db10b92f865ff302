"""Labelled rows: class numbers, label maps, skipped labels, splits and errors."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support.staging.prepared import prepared
from tests.support.staging.tables import MODEL, write
from training.contract.errors import InputError
from training.staging.rows.labels import Example, LabelSurvey, classes_of
from training.staging.sources.request import Columns, Data, StagingRequest
from training.staging.sources.sources import Table
from training.staging.stage import stage

STARS = {"negative": (1, 2), "neutral": (3,), "positive": (4, 5)}


def reviews(path: Path, stars: list[Any]) -> Data:
    """Write a table in the layout of amazon_reviews_multi, mapped to three classes, as training and validation data."""
    rows = [{"stars": each, "review_body": f"review {at}", "language": "de"} for at, each in enumerate(stars)]
    columns = Columns(text="review_body", label="stars")
    written = str(write(path, rows))
    return Data(train=written, validation=written, columns=columns, label_map=STARS)


@pytest.mark.parametrize(("separator", "decimal"), [(";", ",")])
def test_pandas_writes_a_column_of_labels_with_gaps_as_floats(tmp_path: Path, separator: str, decimal: str) -> None:
    """The rows without a label are dropped after the column became one of floats."""
    frame = pd.DataFrame({"text": list("abcdef"), "label": [2, None, 10, 2, None, 10]}).dropna()
    frame.to_csv(tmp_path / "a.csv", sep=separator, decimal=decimal, index=False)
    assert f"2{decimal}0" in (tmp_path / "a.csv").read_text()
    validation = str(write(tmp_path / "b.jsonl", [{"text": "t", "label": label} for label in (10, 2)]))
    result = prepared(Data(train=str(tmp_path / "a.csv"), validation=validation))
    assert result.label_names == ("2", "10")
    assert (result.train_classes, result.validation_classes) == ([0, 1, 0, 1], [1, 0])
    mapped = Data(train=str(tmp_path / "a.csv"), validation=validation, label_map={"ten": (10,), "two": (2,)})
    assert prepared(mapped).train_classes == [1, 0, 1, 0]


def test_the_order_of_the_map_numbers_the_classes(tmp_path: Path) -> None:
    data = reviews(tmp_path / "a.csv", [5, 1, 3])
    reversed_map = data.model_copy(update={"label_map": dict(reversed(STARS.items()))})
    assert prepared(reversed_map).train_classes == [0, 2, 1]
    first, second = (
        stage(StagingRequest(data=each, model=MODEL, max_length=16), tmp_path / "home") for each in (data, reversed_map)
    )
    assert first.key != second.key
    assert (first.label_names, second.label_names[0]) == (("negative", "neutral", "positive"), "positive")


def test_rows_of_skipped_labels_do_not_count(tmp_path: Path) -> None:
    """MNLI and SNLI have `-` for rows on which annotators disagreed; their versions on the Hub have -1."""
    labels = ["-", "entailment", "neutral", "-", "neutral", "entailment"]
    path = str(write(tmp_path / "a.tsv", [{"text": "t", "label": label} for label in labels]))
    with pytest.raises(InputError, match=r"line 2: label '-' is not in data.labels"):
        prepared(Data(train=path, validation=path, labels=("entailment", "neutral")))
    result = prepared(Data(train=path, validation=path, skip_labels=("-",), train_rows=3))
    assert result.label_names == ("entailment", "neutral")
    assert [row.number for row in result.train] == [3, 4, 6]
    with pytest.raises(InputError, match=r"has no rows except those with a label in data.skip_labels"):
        prepared(Data(train=path, validation=path, skip_labels=tuple(set(labels))))


def test_classes_without_rows_give_notes(tmp_path: Path) -> None:
    train = str(write(tmp_path / "a.csv", [{"text": "t", "label": label} for label in "abab"]))
    validation = str(write(tmp_path / "b.csv", [{"text": "t", "label": label} for label in "aca"]))
    data = Data(train=train, validation=validation, labels=("a", "b", "c"))
    staged = stage(StagingRequest(data=data, model=MODEL, max_length=16), tmp_path / "home")
    assert staged.notes() == [
        "no training row has the label 'c': it cannot be learnt",
        "no validation row has the label 'b': it is not evaluated",
    ]
    # Of ten declared labels, eight have no row on either side: six notes are listed and ten more counted.
    few = Data(train=train, validation=train, labels=tuple("abcdefghij"))
    notes = stage(StagingRequest(data=few, model=MODEL, max_length=16), tmp_path / "home").notes()
    assert (len(notes), notes[-1]) == (7, "and 10 more labels without rows")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"label_map": {"a": (1, 2), "b": (2,)}}, "assigns the label '2' to both 'a' and 'b'"),
        ({"label_map": {"a": (1, "1"), "b": (2,)}}, "assigns the label '1' to 'a' twice"),
        (
            {"label_map": {"a": (1,), "b": (2,)}, "labels": ("a", "b")},
            "data.label_map and data.labels cannot be combined",
        ),
        ({"label_map": {"a": (1,), "b": (2,)}, "skip_labels": (2,)}, "data.skip_labels skips the label '2'"),
        ({"label_map": {"a": (1,), "b": (2.5,)}}, "label_map.b"),
    ],
)
def test_an_invalid_map_is_an_error(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Data(train="a.csv", **fields)
    assert message in str(caught.value)


@given(st.data())
def test_every_spelling_of_a_mapped_label_has_its_class(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(-5, 30) | st.text("abc", min_size=1), min_size=2, unique_by=str))
    owners = data.draw(st.lists(st.sampled_from("xyz"), min_size=len(values), max_size=len(values)))
    label_map = {name: tuple(v for v, o in zip(values, owners, strict=True) if o == name) for name in "xyz"}
    label_map = {name: values for name, values in label_map.items() if values}
    if len(label_map) < 2:
        return
    rows = [*values, *map(str, values)]
    classes = classes_of(Data(train="a.csv", label_map=label_map), None, "s", rows)
    assert [classes.names[classes.numbers[row]] for row in rows] == owners * 2


def refused(folder: Path, labels_of_rows: list[Any], **data: Any) -> str:
    path = write(folder / "a.jsonl", [{"text": f"t{at}", "label": label} for at, label in enumerate(labels_of_rows)])
    with pytest.raises(InputError) as caught:
        prepared(Data(train=str(path), **data))
    return str(caught.value).replace(str(path), "FILE")


def test_numbers_are_numbered_in_numeric_order_also_as_text(tmp_path: Path) -> None:
    rows = [{"text": "t", "label": label} for label in (10, 2, 10, 2, 5, 5)]
    for suffix in ("jsonl", "csv"):
        path = str(write(tmp_path / f"a.{suffix}", rows))
        result = prepared(Data(train=path, validation=path))
        assert result.label_names == ("2", "5", "10")
        assert result.train_classes == [2, 0, 2, 0, 1, 1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", 1], "FILE line 2: label 1 has a different type than 'a' (FILE line 1)"),
        ([1, 0.5], "FILE line 2: label 0.5 must be a word or a whole number of at least 0"),
        ([0, [1]], "FILE line 2: label a list must be"),
        (["1", "2.5"], "FILE line 2: label '2.5' must be a word or a whole number of at least 0"),
        (["-1", "1"], "FILE line 1: label '-1' must be"),
        (["a", "a", "a"], "FILE has only one class, 'a'; at least two are required"),
    ],
)
def test_an_invalid_label_is_an_error_with_its_line(tmp_path: Path, labels: list[Any], message: str) -> None:
    assert refused(tmp_path, labels).startswith(message)


def test_an_undeclared_label_is_an_error(tmp_path: Path) -> None:
    message = refused(tmp_path, ["cat", "dgo", "dog", "cat"], labels=("cat", "dog"))
    assert message == "FILE line 2: label 'dgo' is not in data.labels ('cat', 'dog'). Did you mean 'dog'?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "line 1: column 'text' must be text, not null"),
        (["a"], "line 1: column 'text' must be text, not a list"),
        (" \n", "line 1: column 'text' is empty"),
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
