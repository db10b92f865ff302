"""Estimates of data here and in S3 agree with the staged data, stage nothing, and copy no more than they need."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.aws.account import Account
from tests.support.staging.tables import MODEL, PACKED
from training.contract.errors import InputError
from training.staging import stage as staging
from training.staging.sources import data_files
from training.staging.sources.request import Columns, Data, HubData, Splits, StagingRequest
from training.staging.stage import stage, stage_or_estimate

WORDS = ("good", "bad", "film", "really", "the", "a", "awful", "wonderful", "plot")


def rows(count: int) -> list[dict[str, str]]:
    """Return texts of 3 to 20 words whose labels are sorted, as in many public data sets."""
    chosen = random.Random(1)
    return [
        {"text": " ".join(chosen.choices(WORDS, k=chosen.randint(3, 20))), "label": "no" if at * 2 < count else "yes"}
        for at in range(count)
    ]


def written(path: Path, count: int) -> Path:
    """Write rows in the format of the file's suffix."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows(count)), path)
        return path
    text = "\n".join(map(json.dumps, rows(count)))
    if path.suffix == ".csv":
        text = "\n".join(["text,label", *(f'"{row["text"]}",{row["label"]}' for row in rows(count))])
    path.write_bytes(PACKED.get(path.suffix, bytes)(text.encode()))
    return path


def nothing(_: str) -> None:
    pass


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file counts as large, so that a test needs no large file."""
    monkeypatch.setattr(staging, "SMALL_BYTES", 0)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.jsonl.zst", "a.parquet"])
def test_an_estimate_agrees_with_the_staged_data(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, 6000)
    request = StagingRequest(data=Data(train=str(path)), model=MODEL, max_length=16)
    estimated = stage_or_estimate(request, tmp_path / "home", nothing)
    assert estimated.sample_rows == 1000
    assert not (tmp_path / "home" / "staged").exists()
    staged = stage(request, tmp_path / "home")
    assert estimated.key == staged.key
    assert estimated.train_rows == pytest.approx(staged.train_rows, rel=0.03)
    assert estimated.description.validation.rows == pytest.approx(staged.description.validation.rows, rel=0.03)
    assert estimated.lengths.mean_tokens == pytest.approx(staged.lengths.mean_tokens, rel=0.03)
    assert estimated.bucket_lengths == staged.bucket_lengths
    again = stage_or_estimate(request, tmp_path / "home", nothing)
    assert again == stage(request, tmp_path / "home")


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    "options", [{"packing": True, "max_length": 64}, {"packing": False, "max_length": 16}], ids=["packed", "rows"]
)
def test_language_modelling_is_estimated(tmp_path: Path, options: dict[str, Any]) -> None:
    data = Data(train=str(written(tmp_path / "a.jsonl", 6000)), columns=Columns(text="text"))
    request = StagingRequest(task="causal-lm", data=data, model=MODEL, **options)
    estimated = stage_or_estimate(request, tmp_path / "home", nothing)
    staged = stage(request, tmp_path / "home")
    assert estimated.train_rows == pytest.approx(staged.train_rows, rel=0.05)
    rows = [each.description.validation.rows for each in (estimated, staged)]
    assert rows[0] == pytest.approx(rows[1], rel=0.05)
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
    assert (estimated.train_rows, estimated.description.validation.rows) == (2400, 600)


def test_small_data_is_staged(tmp_path: Path) -> None:
    data = Data(train=str(written(tmp_path / "a.jsonl", 50)))
    staged = stage_or_estimate(StagingRequest(data=data, model=MODEL, max_length=16), tmp_path / "home", nothing)
    assert staged.sample_rows is None


BUCKET = "team-data"


@pytest.fixture
def large_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small objects count as large_objects, and a plan reads little of them."""
    monkeypatch.setattr(staging, "SMALL_BYTES", 0)
    monkeypatch.setattr(data_files, "START_BYTES", 100_000)


def put(account: Account, path: Path, key: str) -> None:
    account.clients["s3"].create_bucket(Bucket=BUCKET)
    account.clients["s3"].put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())


def request(name: str, **data: str) -> StagingRequest:
    return StagingRequest(data=Data(train=f"s3://{BUCKET}/{name}", **data), model=MODEL, max_length=16)


@pytest.mark.usefixtures("large_objects")
def test_objects_of_a_format_that_needs_them_whole_are_copied(account: Account, tmp_path: Path) -> None:
    put(account, written(tmp_path / "a.parquet", 6000), "a.parquet")
    notes: list[str] = []
    estimated = stage_or_estimate(request("a.parquet"), tmp_path / "home", notes.append)
    assert estimated.sample_rows == 1000
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []
    [note] = notes
    assert note.startswith(f"The plan copies s3://{BUCKET}/a.parquet (1 object, ")
    assert note.endswith(" MB): their format cannot be read in part.")
    assert estimated.key == stage(request("a.parquet"), tmp_path / "home").key


@pytest.mark.usefixtures("large_objects")
def test_only_the_start_is_copied(account: Account, tmp_path: Path) -> None:
    shard = written(tmp_path / "a.jsonl", 6000)
    for number in range(3):
        put(account, shard, f"rows/{number}.jsonl")
    put(account, written(tmp_path / "b.csv", 500), "validation.csv")
    data = request("rows/", validation=f"s3://{BUCKET}/validation.csv")
    before = account.read_bytes
    estimated = stage_or_estimate(data, tmp_path / "home", lambda _: None)
    assert account.read_bytes - before < 200_000 < shard.stat().st_size
    assert estimated.train_rows == pytest.approx(18_000, rel=0.03)
    assert estimated.description.validation.rows == pytest.approx(500, rel=0.03)


@pytest.mark.usefixtures("large_objects")
def test_a_cut_within_the_sample_leaves_the_rows_before_it(account: Account, tmp_path: Path) -> None:
    """Quoted line ends hide the cut of a CSV file, so its last row is incomplete."""
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f'"\n{"a b" * 500}",{at % 2}\n' for at in range(300)))
    put(account, path, "a.csv")
    estimated = stage_or_estimate(request("a.csv"), tmp_path / "home", nothing)
    assert estimated.sample_rows == 66


@pytest.mark.usefixtures("large_objects")
def test_an_error_in_the_first_rows_names_the_object(account: Account, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", 6000)
    path.write_text("{broken\n" + path.read_text())
    put(account, path, "a.jsonl")
    with pytest.raises(InputError, match=rf"s3://{BUCKET}/a\.jsonl line 1"):
        stage_or_estimate(request("a.jsonl"), tmp_path / "home", lambda _: None)
    assert list((tmp_path / "home").rglob("*.jsonl")) == []
