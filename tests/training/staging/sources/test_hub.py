"""Hub data sets, read with `datasets` from a local folder with the same layout, and errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq
import pytest

from tests.support.staging.hub_request import request_for
from tests.support.staging.tables import ANIMALS, MODEL, write
from training.contract.errors import InputError
from training.staging.sources.request import Columns, Data, HubData, Splits, StagingRequest
from training.staging.stage import stage


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def hub_folder(folder: Path) -> Path:
    folder.mkdir()
    write(folder / "train.jsonl", ANIMALS)
    write(folder / "validation.jsonl", ANIMALS[:4])
    return folder


def test_an_unknown_split_or_column_is_an_error(tmp_path: Path) -> None:
    folder = hub_folder(tmp_path / "set")
    with pytest.raises(InputError, match="split 'dev' cannot be loaded: ") as caught:
        stage(request_for(folder, validation="dev"), tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"split train has no column 'txt'; it has 'text', 'label'. Did you mean"):
        stage(request_for(folder, columns=Columns(text="txt")), tmp_path)


@pytest.mark.parametrize(
    "offline",
    # Without a network `datasets` retries for 23 seconds.
    [pytest.param("1", id="offline"), pytest.param("0", id="unreachable", marks=pytest.mark.slow)],
)
def test_a_missing_network_is_an_error(tmp_path: Path, offline: str) -> None:
    code = (
        "from pathlib import Path; from tests.support.staging.hub_request import request_for;"
        "from training.staging.stage import stage; from training.contract.errors import InputError\n"
        f"try: stage(request_for('nobody/nothing'), Path({str(tmp_path)!r}))\n"
        "except InputError as error: print(error)"
    )
    # Nothing listens on port 9 of this machine.
    environment = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "PATH": "", "HF_HUB_OFFLINE": offline}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert process.stdout.startswith("data.hub 'nobody/nothing', split 'train' cannot be loaded: ")
    assert process.stdout.count("\n") == 1


def test_questions_of_a_hub_data_set_are_cut_into_windows(tmp_path: Path) -> None:
    import datasets

    folder = tmp_path / "squad"
    folder.mkdir()
    # The features of the Hub's squad, as datasets 4 writes them.
    answers = {"text": datasets.List(datasets.Value("string")), "answer_start": datasets.List(datasets.Value("int32"))}
    texts = {name: datasets.Value("string") for name in ("id", "title", "context", "question")}
    row = {
        "title": "t",
        "context": " Denver won.",
        "question": " Who?",
        "answers": {"text": ["Denver"], "answer_start": [1]},
    }
    for split in ("train", "validation"):
        rows = datasets.Dataset.from_list(
            [{**row, "id": split}], features=datasets.Features({**texts, "answers": answers})
        )
        rows.to_parquet(folder / f"{split}.parquet")
    hub = HubData(name=str(folder), splits=Splits(validation="validation"))
    request = StagingRequest(task="question-answering", data=Data(hub=hub), model=MODEL, max_length=16, doc_stride=4)
    staged = stage(request, tmp_path)
    train = Path(unquote(urlparse(staged.channels["train"]).path)) / "data.parquet"
    # [CLS] who ? [SEP] denver won . [SEP]
    assert pq.read_table(train).drop_columns(["input_ids"]).to_pylist() == [
        {"token_type_ids": [0, 0, 0, 0, 1, 1, 1, 1], "start_position": 4, "end_position": 4}
    ]
