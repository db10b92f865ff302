"""A training job in a separate process, on a random two-layer model, without a service."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.planning.job_source import make_job_source
from tests.support.fork_server.interpreter import forking_interpreter
from tests.support.job.arguments import job_argv

DYING = str(Path(__file__).with_name("dying.py"))
"""Script that sends the job a signal at a chosen call."""
WATCHED = str(Path(__file__).with_name("watched.py"))
"""Script that records the rows of each process, or lets one fail."""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
"""Arguments of Python that launch two processes."""

VOCABULARY = 50
LABELS = ("calm", "wild é")


@cache
def train_py() -> str:
    """Return the path of `train.py` in a copy of the source, as the services ship it."""
    folder = Path(tempfile.mkdtemp(prefix="job_source_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(make_job_source(folder) / "train.py")


def write_channel(
    folder: Path, ids: Sequence[Sequence[int]], labels: Sequence[int], types: Any = None, **metadata: Any
) -> None:
    columns = {"input_ids": pa.array(ids, pa.list_(pa.int32())), "label": pa.array(labels, pa.int64())}
    if types is not None:
        columns["token_type_ids"] = pa.array(types, pa.list_(pa.int8()))
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / "data.parquet", store_schema=False)
    known = {"task": "classification", "label_names": LABELS, "max_length": 12, "rows": len(ids)}
    known |= {"pad_token_id": 0, "pad_token_type_id": 0, "padding_side": "right"}
    (folder / "channel.json").write_text(json.dumps({**known, **metadata}))


def example_rows(count: int) -> tuple[list[list[int]], list[int]]:
    """Return rows of 3 to 12 tokens and their labels. The first token determines the label."""
    labels = [at % 2 for at in range(count)]
    ids = [[10 + label, *((at * 7 + i) % 30 + 15 for i in range(2 + at % 10))] for at, label in enumerate(labels)]
    return ids, labels


@dataclass(frozen=True)
class Ended:
    """A job that has ended."""

    code: int
    output: str
    folder: Path

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        lines = (self.folder / "output/data/events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if kind in (None, event["event"])]

    @property
    def result(self) -> dict[str, Any]:
        assert self.code == 0, self.output[-3000:]
        return self.events("result")[0]

    @property
    def weights(self) -> bytes:
        return (self.folder / "model/model.safetensors").read_bytes()

    @property
    def losses(self) -> list[float]:
        return [event["values"]["loss"] for event in self.events("metric") if "loss" in event["values"]]


class Job:
    """The folders and environment variables of one job, which runs in a separate process."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder = folder
        self.environment = {
            "SM_MODEL_DIR": str(folder / "model"),
            "SM_OUTPUT_DIR": str(folder / "output"),
            "SM_OUTPUT_DATA_DIR": str(folder / "output/data"),
            "SM_CHANNEL_TRAIN": str(folder / "train"),
            "SM_CHANNEL_VALIDATION": str(folder / "validation"),
            "SM_CHANNEL_MODEL": str(model),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        write_channel(folder / "train", *example_rows(50))
        write_channel(folder / "validation", *example_rows(13))

    def with_checkpoints(self) -> Job:
        """Give the job a folder for checkpoints."""
        self.environment["SM_CHECKPOINT_DIR"] = str(self.folder / "checkpoints")
        return self

    def without_dropout(self) -> Job:
        """Train a copy of the model without dropout."""
        model = self.folder.parent / f"{self.folder.name} model"
        shutil.copytree(self.environment["SM_CHANNEL_MODEL"], model)
        config = json.loads((model / "config.json").read_text())
        config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        (model / "config.json").write_text(json.dumps(config))
        self.environment["SM_CHANNEL_MODEL"] = str(model)
        return self

    def wait_for(self, text: str, process: subprocess.Popen[str]) -> None:
        """Wait until the job's events contain the text."""
        file = self.folder / "output/data/events.jsonl"
        deadline = time.monotonic() + 480
        while not (file.exists() and text in file.read_text()):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "the expected event did not appear"
            time.sleep(0.05)

    def start(
        self, launcher: Sequence[str] = (), *, python: Sequence[str] | None = None, **arguments: Any
    ) -> subprocess.Popen[str]:
        """Start the job.

        `launcher` has arguments to place before the script. `python` replaces the forking interpreter.
        """
        command = [*(python or [forking_interpreter()]), *launcher]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SM_")}
        return subprocess.Popen(
            [*command, train_py(), *job_argv(**arguments)],
            env=inherited | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, launcher: Sequence[str] = (), *, python: Sequence[str] | None = None, **arguments: Any) -> Ended:
        """Run the job to its end. Arguments that are not given come from `tests.support.job.arguments`."""
        process = self.start(launcher, python=python, **arguments)
        output, _ = process.communicate(timeout=480)
        return Ended(process.returncode, output, self.folder)


def write_tiny_model(folder: Path, vocabulary: int = VOCABULARY, positions: int = 16) -> Path:
    """Write a random two-layer BERT, and return its folder."""
    from transformers import BertConfig, BertForSequenceClassification, set_seed

    set_seed(1)
    config = BertConfig(
        vocab_size=vocabulary, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=positions,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder
