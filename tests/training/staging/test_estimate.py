"""Estimates of staged data agree with the staged data, and stage nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.staging.tables import MODEL
from tests.support.staging.text_rows import written
from training.contract.errors import InputError
from training.staging import estimate
from training.staging.estimate import is_small, stage_or_estimate
from training.staging.sources.request import Columns, Data, HubData, Splits, StagingRequest
from training.staging.stage import stage


def nothing(_: str) -> None:
    pass


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file counts as large, so that a test needs no large file."""
    monkeypatch.setattr(estimate, "SMALL_BYTES", 0)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.jsonl.gz", "a.jsonl.bz2", "a.jsonl.zst", "a.parquet"])
def test_an_estimate_agrees_with_the_staged_data(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, 6000)
    request = StagingRequest(data=Data(train=str(path)), model=MODEL, max_length=16)
    estimated = stage_or_estimate(request, tmp_path / "home", nothing)
    assert estimated.sample_rows == 1000
    assert not (tmp_path / "home" / "staged").exists()
    staged = stage(request, tmp_path / "home")
    assert estimated.staged.key == staged.key
    assert estimated.staged.train_rows == pytest.approx(staged.train_rows, rel=0.03)
    assert estimated.staged.validation_rows == pytest.approx(staged.validation_rows, rel=0.03)
    assert estimated.staged.lengths.mean_tokens == pytest.approx(staged.lengths.mean_tokens, rel=0.03)
    assert estimated.staged.bucket_lengths == staged.bucket_lengths
    again = stage_or_estimate(request, tmp_path / "home", nothing)
    assert (again.sample_rows, again.staged) == (None, stage(request, tmp_path / "home"))


@pytest.mark.usefixtures("large")
def test_shards_in_another_encoding_are_estimated(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    for name in "ab":
        text = written(tmp_path / "a.csv", 3000).read_text()
        (tmp_path / "shards" / f"{name}.csv").write_text(text.replace(",", ";"), "utf-16")
    data = Data(train=str(tmp_path / "shards"), encoding="utf-16")
    request = StagingRequest(data=data, model=MODEL, max_length=16)
    estimated, staged = stage_or_estimate(request, tmp_path / "home", nothing), stage(request, tmp_path / "home")
    assert (estimated.sample_rows, estimated.staged.key) == (1000, staged.key)
    assert staged.train_rows + staged.validation_rows == 6000
    assert estimated.staged.train_rows == pytest.approx(staged.train_rows, rel=0.03)
    assert staged.source == f"{tmp_path}/shards (2 files, utf-16, delimiter ';')"


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    "options", [{"packing": True, "max_length": 64}, {"packing": False, "max_length": 16}], ids=["packed", "rows"]
)
def test_language_modelling_is_estimated(tmp_path: Path, options: dict[str, Any]) -> None:
    data = Data(train=str(written(tmp_path / "a.jsonl", 6000)), columns=Columns(text="text"))
    request = StagingRequest(task="causal-lm", data=data, model=MODEL, **options)
    estimated = stage_or_estimate(request, tmp_path / "home", nothing).staged
    staged = stage(request, tmp_path / "home")
    assert estimated.train_rows == pytest.approx(staged.train_rows, rel=0.05)
    assert estimated.lengths.mean_tokens == pytest.approx(staged.lengths.mean_tokens, rel=0.03)


@pytest.mark.usefixtures("large")
def test_a_local_folder_of_the_hubs_layout_is_read_row_by_row(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    written(folder / "train.jsonl", 3000)
    hub = HubData(name=str(folder), splits=Splits(train="train"))
    request = StagingRequest(data=Data(hub=hub), model=MODEL, max_length=16)
    estimated = stage_or_estimate(request, tmp_path / "home", nothing)
    assert estimated.sample_rows == 1000
    assert (estimated.staged.train_rows, estimated.staged.validation_rows) == (2400, 600)


@pytest.mark.usefixtures("large")
def test_errors_in_the_first_rows_have_their_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", 50)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:7], '{"text": " ", "label": "no"}', *lines[8:]]))
    request = StagingRequest(data=Data(train=str(path)), model=MODEL, max_length=16)
    with pytest.raises(InputError, match=r"a\.jsonl line 8: column 'text' is empty"):
        stage_or_estimate(request, tmp_path / "home", nothing)


def test_small_data_is_staged(tmp_path: Path) -> None:
    data = Data(train=str(written(tmp_path / "a.jsonl", 50)))
    assert is_small(data)
    staged = stage_or_estimate(StagingRequest(data=data, model=MODEL, max_length=16), tmp_path / "home", nothing)
    assert staged.sample_rows is None
    assert not is_small(Data(hub=HubData(name="owner/name"))) or estimate.is_offline()
