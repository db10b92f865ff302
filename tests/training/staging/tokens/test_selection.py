"""With a limit on training rows, only the first rows are read and split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.staging.prepared import prepared, selected
from tests.support.staging.tables import write
from training.contract.errors import InputError
from training.staging.sources.request import Data
from training.staging.tokens.rows import validation_count


def numbered(folder: Path, labels: Sequence[str]) -> str:
    return str(write(folder / "a.csv", [{"text": f"row {at}", "label": label} for at, label in enumerate(labels)]))


def test_with_a_limit_only_the_first_rows_are_read(tmp_path: Path) -> None:
    """8 training rows of 10 are 20 % validation rows; row 11 and everything after it is not read."""
    path = numbered(tmp_path, "ab" * 6)
    with Path(path).open("a") as stream:
        stream.write('"a broken row\n')
    result = prepared(Data(train=path, train_rows=8))
    assert sorted(row.number for row in [*result.train, *result.validation]) == list(range(2, 12))
    assert Counter(row.labels[0] for row in result.validation) == {"a": 1, "b": 1}
    with pytest.raises(InputError, match="is malformed"):
        prepared(Data(train=path, train_rows=8, validation_rows=3))


def test_a_limit_is_reached_despite_rounding_and_many_classes(tmp_path: Path) -> None:
    """Each class of two rows or more has a validation row, so the first 13 rows have too few training rows."""
    path = numbered(tmp_path, [f"class {at % 6}" for at in range(200)])
    result = prepared(Data(train=path, train_rows=10, validation_rows=4))
    assert (len(result.train), len(result.validation)) == (10, 4)
    assert max(row.number for row in [*result.train, *result.validation]) < 40


def test_a_class_that_the_limit_leaves_out_is_known(tmp_path: Path) -> None:
    path = numbered(tmp_path, [*"ababab", *"c" * 30])
    result = prepared(Data(train=path, train_rows=4, validation_rows=6))
    assert result.label_names == ("a", "b", "c")
    assert 2 not in result.train_classes


def test_a_limit_reads_only_the_first_questions(tmp_path: Path) -> None:
    rows = [{"id": str(at), "context": f"context {at // 2}", "question": "?", "answers": []} for at in range(400)]
    path = str(write(tmp_path / "a.jsonl", rows))
    with Path(path).open("a") as stream:
        stream.write("broken\n")
    selection = selected(Data(train=path, train_rows=50), task="question-answering")
    train, validation = list(selection.train.read()), list(selection.validation.read())
    assert len(train) == 50
    assert 8 <= len(validation) <= 20
    assert {each.group for each in train}.isdisjoint({each.group for each in validation})


def test_data_that_shrinks_between_two_passes_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\nfour\n")
    selection = selected(Data(train=str(path)), task="causal-lm")
    path.write_text("one\n")
    with pytest.raises(InputError, match="the data changed while it was staged"):
        list(selection.train.read())


@pytest.mark.parametrize(
    ("rows", "share", "count"), [(1, 0.2, 0), (2, 0.2, 1), (2, 0.9, 1), (10, 0.2, 2), (15, 0.5, 8), (100, 0.001, 1)]
)
def test_each_side_has_a_row(rows: int, share: float, count: int) -> None:
    assert validation_count(rows, share) == count
