"""Own tasks stage data from S3 without keeping the raw files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from experiments.planning.load import load
from tests.support.aws.account import Account
from tests.support.staging.tables import ANIMALS, MODEL, write
from training.contract.errors import InputError
from training.contract.s3_location import ANY_ACCOUNT
from training.services.supervision.toolkit import local_path
from training.staging.sources.data_files import StoredFiles
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage
from training.staging.tokens.staged import Staged

ROWS = "".join(json.dumps(row) + "\n" for row in ANIMALS)


def put(account: Account, objects: Mapping[str, str]) -> None:
    account.clients["s3"].create_bucket(Bucket="team-data")
    for key, text in objects.items():
        account.clients["s3"].put_object(Bucket="team-data", Key=key, Body=text.encode())


def request(uri: str) -> StagingRequest:
    return StagingRequest(data=Data(train=uri), model=MODEL, max_length=16)


def channels(staged: Staged) -> dict[str, bytes]:
    return {name: (local_path(staged.channels[name]) / "data.parquet").read_bytes() for name in ("train", "validation")}


def reads(account: Account) -> int:
    """Return the number of objects that were read."""
    return sum(call.startswith("GET /team-data/") for _, call in account.calls)


def test_data_from_s3_becomes_the_same_channels(account: Account, tmp_path: Path) -> None:
    put(account, {"a b/rows#1.jsonl": ROWS})
    home = tmp_path / "home"
    staged = stage(request("s3://team-data/a b/rows#1.jsonl"), home)
    assert channels(staged) == channels(stage(request(str(write(tmp_path / "rows.jsonl", ANIMALS))), home))
    assert staged.source == "s3://team-data/a b/rows#1.jsonl (1 object, 0.0 MB)"
    # The object is read once for both passes over its rows, and not at all for data that is staged already.
    assert (reads(account), stage(request("s3://team-data/a b/rows#1.jsonl"), home).cached, reads(account)) == (
        1,
        True,
        1,
    )
    assert not [path for path in home.rglob("*") if path.suffix == ".jsonl" or path.name.startswith(".unfinished-")]


def test_an_object_with_another_etag_is_staged_again(account: Account, tmp_path: Path) -> None:
    put(account, {"rows.jsonl": ROWS})
    first = stage(request("s3://team-data/rows.jsonl"), tmp_path)
    put(account, {"rows.jsonl": ROWS.replace("cat", "cow")})
    second = stage(request("s3://team-data/rows.jsonl"), tmp_path)
    assert second.description.label_names != first.description.label_names
    assert len({first.key, second.key}) == len({first.digest, second.digest}) == 2


def test_a_folder_is_read_in_the_order_of_its_keys(account: Account, tmp_path: Path) -> None:
    lines = ROWS.splitlines(keepends=True)
    put(
        account,
        {"rows/2.jsonl": "".join(lines[4:]), "rows/1.jsonl": "".join(lines[:4]), "rows/_SUCCESS": "", "rows/": ""},
    )
    put(account, {"rows.jsonl": ROWS})
    staged = stage(request("s3://team-data/rows/"), tmp_path)
    assert channels(staged) == channels(stage(request("s3://team-data/rows.jsonl"), tmp_path))


def test_a_wrong_row_is_located_in_its_object_and_nothing_stays(account: Account, tmp_path: Path) -> None:
    put(account, {"rows/1.jsonl": ROWS, "rows/2.jsonl": ROWS + "{broken\n"})
    with pytest.raises(InputError) as caught:
        stage(request("s3://team-data/rows/"), tmp_path / "home")
    assert f"s3://team-data/rows/2.jsonl line {len(ANIMALS) + 1}" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "home" in path.parts]


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3://team-data/rows", "data.train 's3://team-data/rows': bucket team-data has no such object; a folder ends"),
        ("s3://team-data/deep/", "has the folder of 'deep/inner/1.jsonl': name one folder of data files"),
        ("s3://team-data/mixed/", "must have one format, but 'mixed/1.jsonl' and 'mixed/2.csv' differ"),
        ("s3://team-data/empty.jsonl", "data.train: s3://team-data/empty.jsonl is empty"),
    ],
)
def test_data_that_cannot_be_read_is_refused_before_a_copy(
    account: Account, tmp_path: Path, uri: str, message: str
) -> None:
    put(
        account, dict.fromkeys(("rows/1.jsonl", "deep/inner/1.jsonl", "mixed/1.jsonl", "mixed/2.csv", "rows.xlsx"), "x")
    )
    put(account, {"empty.jsonl": ""})
    with pytest.raises(InputError) as caught:
        stage(request(uri), tmp_path)
    assert message in str(caught.value)
    assert reads(account) == 0


def test_an_object_that_changes_before_it_is_copied_is_refused(account: Account, tmp_path: Path) -> None:
    put(account, {"rows.jsonl": ROWS})
    files = StoredFiles("data.train", "s3://team-data/rows.jsonl", tmp_path / "staged", ANY_ACCOUNT)
    put(account, {"rows.jsonl": "other"})
    with pytest.raises(InputError, match=r"^data\.train 's3://team-data/rows\.jsonl' has changed since it was listed"):
        files.copies()
    files.close()
    assert list((tmp_path / "staged").iterdir()) == []


def test_a_uri_in_a_file_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        f"model: {MODEL}\ndata: {{train: s3://team-data/rows.csv}}\nbatch_size: 4\nepochs: 1\n"
    )
    data = load(str(tmp_path / "own.yaml"), {"data.validation": "s3://team-data/more.csv"}).data
    assert data is not None
    assert (data.train, data.validation) == ("s3://team-data/rows.csv", "s3://team-data/more.csv")
