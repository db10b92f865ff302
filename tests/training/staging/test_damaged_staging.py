"""Staged data whose files were changed: it is staged again, and one line reports it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.staging.tables import ANIMALS, MODEL, write
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage
from training.state.folders import record_of


def request_in(folder: Path) -> StagingRequest:
    return StagingRequest(data=Data(train=str(write(folder / "a.jsonl", ANIMALS))), model=MODEL, max_length=16)


@pytest.mark.parametrize("file", ["train/data.parquet", "train/channel.json", "staged.json"])
@pytest.mark.parametrize("content", [b"", b"[]", b'{"has_model": 3}', bytes(range(256))])
def test_a_damaged_staging_is_made_again(tmp_path: Path, file: str, content: bytes) -> None:
    request, said = request_in(tmp_path), list[str]()
    staged = stage(request, tmp_path)
    folder = tmp_path / "staged" / staged.key
    before = (folder / file).read_bytes()
    (folder / file).write_bytes(content)
    again = stage(request, tmp_path, said.append)
    assert said == [f"{folder} is damaged: it differs from its digest. It is made again."]
    assert (again.cached, (folder / file).read_bytes()) == (False, before)
    assert stage(request, tmp_path, said.append).cached
    assert len(said) == 1


def test_a_staging_of_an_earlier_version_is_reused(tmp_path: Path) -> None:
    request = request_in(tmp_path)
    staged = stage(request, tmp_path)
    record_of(tmp_path / "staged" / staged.key).unlink()
    assert stage(request, tmp_path).cached
