"""Label maps and skipped labels."""

from __future__ import annotations

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
from training.staging.rows.labels import classes_of
from training.staging.sources.request import Columns, Data, StagingRequest
from training.staging.stage import stage

STARS = {"negative": (1, 2), "neutral": (3,), "positive": (4, 5)}


def reviews(path: Path, stars: list[Any]) -> Data:
    """Write a table in the layout of amazon_reviews_multi, mapped to three classes, as training and validation data."""
    rows = [{"stars": each, "review_body": f"review {at}", "language": "de"} for at, each in enumerate(stars)]
    columns = Columns(text="review_body", label="stars")
    written = str(write(path, rows))
    return Data(train=written, validation=written, columns=columns, label_map=STARS)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv.gz", "parquet"])
def test_stars_become_three_classes(tmp_path: Path, suffix: str) -> None:
    result = prepared(reviews(tmp_path / f"a.{suffix}", [5, 1, 2, 3, 4, 1]))
    assert result.label_names == ("negative", "neutral", "positive")
    assert result.train_classes == [2, 0, 0, 1, 2, 0]


def test_whole_numbers_stored_as_floats_are_labels(tmp_path: Path) -> None:
    """pandas stores a column of whole numbers with missing values as floats."""
    assert prepared(reviews(tmp_path / "a.parquet", [5.0, 1.0, 3.0])).train_classes == [2, 0, 1]
    with pytest.raises(InputError, match=r"a.parquet row 2: label 2.5 must be a word or a whole number"):
        prepared(reviews(tmp_path / "a.parquet", [5.0, 2.5, 3.0]))


@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), (";", ",")])
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


def test_spellings_of_a_whole_number_are_one_class(tmp_path: Path) -> None:
    rows = [{"text": "t", "label": label} for label in ("1", "0.0", "1.0", "0", "1.00")]
    path = str(write(tmp_path / "a.csv", rows))
    result = prepared(Data(train=path, validation=path))
    assert (result.label_names, result.train_classes) == (("0", "1"), [1, 0, 1, 0, 1])
    named = prepared(Data(train=path, validation=path, labels=("no", "yes"), train_rows=4, validation_rows=4))
    assert (named.label_names, named.train_classes) == (("no", "yes"), [1, 0, 1, 0])
    skipped = prepared(Data(train=path, validation=str(write(tmp_path / "b.csv", rows[:2] * 2))))
    assert skipped.validation_classes == [1, 0, 1, 0]


def test_names_that_are_floats_are_names_and_no_positions(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.jsonl", [{"text": "t", "label": label} for label in (1.0, 2.0)]))
    assert prepared(Data(train=path, validation=path, labels=("1.0", "2.0"))).train_classes == [0, 1]


def test_floats_with_gaps_are_skipped_like_whole_numbers(tmp_path: Path) -> None:
    rows = [{"text": "t", "label": label} for label in ("1.0", "-1.0", "0.0")]
    path = str(write(tmp_path / "a.csv", rows))
    result = prepared(Data(train=path, validation=path, skip_labels=(-1,)))
    assert (result.label_names, result.train_classes) == (("0", "1"), [1, 0])


@pytest.mark.parametrize("label", ["2.5", "2,5"])
def test_a_float_that_is_not_whole_is_refused_with_the_rule(tmp_path: Path, label: str) -> None:
    path = write(tmp_path / "a.csv", [{"text": "t", "label": each} for each in ("1.0", "2.0", label)])
    with pytest.raises(InputError) as caught:
        prepared(Data(train=str(path)))
    assert str(caught.value) == (
        f"{path} line 4: label '{label}' must be a word or a whole number of at least 0, such as 1 or 1.0"
    )


def test_the_order_of_the_map_numbers_the_classes(tmp_path: Path) -> None:
    data = reviews(tmp_path / "a.csv", [5, 1, 3])
    reversed_map = data.model_copy(update={"label_map": dict(reversed(STARS.items()))})
    assert prepared(reversed_map).train_classes == [0, 2, 1]
    first, second = (
        stage(StagingRequest(data=each, model=MODEL, max_length=16), tmp_path / "home") for each in (data, reversed_map)
    )
    assert first.key != second.key
    assert (first.label_names, second.label_names[0]) == (("negative", "neutral", "positive"), "positive")


def test_a_label_that_is_not_in_the_map_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        prepared(reviews(tmp_path / "a.csv", [5, 1, 0, 3]))
    assert str(caught.value) == (
        f"{tmp_path / 'a.csv'} line 4: label '0' is not in data.label_map ('1', '2', '3', '4', '5')."
    )


def test_a_map_may_mix_negative_numbers_and_words(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.csv", [{"text": "t", "label": label} for label in (-1, "good", 1, -1)]))
    data = Data(train=path, validation=path, label_map={"bad": (-1,), "fine": (1, "good")})
    assert prepared(data).train_classes == [0, 1, 1, 0]


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


def test_skipped_numbers_are_skipped_in_every_spelling(tmp_path: Path) -> None:
    for suffix, one in (("csv", 1), ("jsonl", 1), ("parquet", 1.0)):
        rows = [{"text": "t", "label": label} for label in (one, -one, 0 * one, one)]
        path = str(write(tmp_path / f"a.{suffix}", rows))
        assert prepared(Data(train=path, validation=path, skip_labels=(-1,))).train_classes == [1, 0, 1]


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
        ({"label_map": {"a": (1,)}}, "label_map"),
        ({"label_map": {"a": (1,), "b": ()}}, "label_map.b"),
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
