"""Labelled rows: class numbers, label maps, splits and errors. `tests.support.corpus` has labels of every kind."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support.staging.prepared import prepared
from tests.support.staging.tables import MODEL, write
from training.contract.errors import InputError
from training.job.tasks import TASKS, Row
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import Table
from training.staging.stage import stage
from training.staging.tokens.rows import Survey


def test_classes_without_rows_give_notes(tmp_path: Path) -> None:
    train = str(write(tmp_path / "a.csv", [{"text": f"t {at}", "label": label} for at, label in enumerate("abab")]))
    validation = str(write(tmp_path / "b.csv", [{"text": f"v {at}", "label": label} for at, label in enumerate("aca")]))
    data = Data(train=train, validation=validation, labels=("a", "b", "c"))
    staged = stage(StagingRequest(data=data, model=MODEL, max_length=16), tmp_path / "home")
    assert staged.notes() == [
        "no training row has the label 'c': it cannot be learnt",
        "no validation row has the label 'b': it is not evaluated",
    ]
    # Of ten declared labels, eight have no row on either side: six notes are listed and ten more counted.
    more = str(write(tmp_path / "c.csv", [{"text": f"w {at}", "label": label} for at, label in enumerate("ab")]))
    few = Data(train=train, validation=more, labels=tuple("abcdefghij"))
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
        ({"label_map": {"a": (1,), "b": (float("nan"),)}}, "label_map.b"),
    ],
)
def test_an_invalid_map_is_an_error(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Data(train="a.csv", **fields)
    assert message in str(caught.value)


def test_numbers_are_numbered_in_numeric_order_also_as_text(tmp_path: Path) -> None:
    rows = [{"text": "t", "label": label} for label in (10, 2, 10, 2, 5, 5)]
    for suffix in ("jsonl", "csv"):
        path = str(write(tmp_path / f"a.{suffix}", rows))
        result = prepared(Data(train=path, validation=path))
        assert result.label_names == ("2", "5", "10")
        assert result.train_classes == [2, 0, 2, 0, 1, 1]


def split_labels(labels: Sequence[str], *, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Return the indexes of the (training, validation) rows of a split of rows with these labels."""
    rows = [Row(at, (f"t {at}",), (label,)) for at, label in enumerate(labels)]
    survey = Survey(
        TASKS["classification"], Table(name="s", location="s line {}".format, rows=iter([])), Data(train="s")
    )
    for row in rows:
        survey.add(row)
    sides = survey.split(share, seed)
    return [at for at, side in enumerate(sides) if not side], [at for at, side in enumerate(sides) if side]


def test_a_split_worked_out_by_hand() -> None:
    # 20 % of 10 and of 5 rows: 2 and 1.
    labels = ["a"] * 10 + ["b"] * 5
    train, validation = split_labels(labels, share=0.2, seed=3)
    assert Counter(labels[at] for at in validation) == {"a": 2, "b": 1}
    assert Counter(labels[at] for at in train) == {"a": 8, "b": 4}


LABELS = st.lists(st.sampled_from("abc"), min_size=3).filter(lambda labels: len(set(labels)) < len(labels))


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
    path = str(write(tmp_path / "a.csv", [{"text": "t", "label": f"word {at}"} for at in range(100_001)]))
    with pytest.raises(InputError, match=r"line 100002: column 'label' has more than 100,000 different labels"):
        prepared(Data(train=path))
