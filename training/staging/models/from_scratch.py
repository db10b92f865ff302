"""Models from scratch: the configuration that their random weights are made for, and the tokenizer beside it."""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.contract.errors import InputError, nearest
from training.staging.models.model_files import TOKENIZER_FILES, ModelSource, usable_positions
from training.staging.rows.examples import shown

NOT_OVERRIDDEN = frozenset({"model_type", "transformers_version", "architectures"})
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id")


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """What a model is built from."""

    model_type: str | None
    """Architecture, such as `gpt2`, in its default configuration; None takes the configuration of `base`."""
    base: ModelSource | None
    """Model whose configuration is taken."""
    overrides: Mapping[str, Any]
    """Fields of the configuration that differ."""
    tokenizer: ModelSource
    """Its vocabulary decides the size of the embeddings."""

    @property
    def name(self) -> str:
        """How messages call it."""
        return self.base.name if self.base else f"model_type {self.model_type}"

    def identity(self) -> list[Any]:
        """Return what changes when the written files do; defaults differ between versions of Transformers."""
        base = self.base.tokenizer_identity() if self.base else self.model_type
        return [base, sorted(self.overrides.items()), importlib.metadata.version("transformers")]

    def configuration(self, max_length: int) -> Any:
        """Return the configuration. Raises `InputError` for what the architecture does not know or cannot take."""
        default = self._configured({})
        known = {*default.to_dict(), *default.attribute_map} - NOT_OVERRIDDEN
        for name, value in self.overrides.items():
            if name not in known:
                raise InputError(f"model_overrides: {self.name} has no field {name!r}.{nearest(name, known)}")
            _check_kind(name, value, getattr(default, name, None))
        config = self._configured(self.overrides)
        positions = usable_positions(config.to_dict())
        if positions is not None and max_length > positions:
            raise InputError(f"max_length is {max_length}, but {self.name} takes at most {positions} tokens")
        return config

    def _configured(self, fields: Mapping[str, Any]) -> Any:
        from transformers import CONFIG_MAPPING, AutoConfig

        if self.model_type is not None and self.model_type not in CONFIG_MAPPING:
            raise InputError(
                f"model_type {self.model_type!r} is unknown to transformers.{nearest(self.model_type, CONFIG_MAPPING)}"
            )
        try:
            if self.model_type is not None:
                return AutoConfig.for_model(self.model_type, **fields)
            assert self.base is not None, "a model from scratch has a type or another's configuration"
            return AutoConfig.from_pretrained(self.base.location, revision=self.base.revision or "main", **fields)
        # Unknown names, no network, values that a configuration refuses: each raises another class.
        except Exception as error:
            raise InputError(f"the configuration of {self.name} cannot be made: {_first_line(error)}") from error

    def write(self, config: Any, tokenizer: Any, head: str, folder: Path) -> None:
        """Write the model's configuration, fitted to the tokenizer, and the tokenizer's files.

        `head` is the class of Transformers that the job will build; what it refuses is refused here.
        """
        self._fit(config, tokenizer)
        _check_architecture(self.name, config, head)
        folder.mkdir(parents=True)
        config.save_pretrained(folder)
        if self.tokenizer.folder is None:
            tokenizer.save_pretrained(folder)
            return
        # Saving a loaded one again might rewrite it, for a version of Transformers that a container does not have.
        for name in TOKENIZER_FILES:
            if (self.tokenizer.folder / name).is_file():
                shutil.copyfile(self.tokenizer.folder / name, folder / name)

    def _fit(self, config: Any, tokenizer: Any) -> None:
        """Set the size of the vocabulary and the special tokens."""
        if not hasattr(config, "vocab_size"):
            raise InputError(f"{self.name} takes no tokens: its configuration has no vocab_size")
        size = len(tokenizer)
        if config.vocab_size < size and ("vocab_size" in self.overrides):
            raise InputError(f"model_overrides: vocab_size {config.vocab_size} is below the tokenizer's {size} tokens")
        if self.tokenizer == self.base:
            config.vocab_size = max(config.vocab_size, size)
            return
        config.vocab_size = config.vocab_size if "vocab_size" in self.overrides else size
        for name in TOKENS:
            if hasattr(config, name) and name not in self.overrides:
                setattr(config, name, getattr(tokenizer, name, None))


def _check_kind(name: str, value: Any, default: Any) -> None:
    """Refuse a value of another kind than the default; a whole number may stand for a number."""
    kind = type(default)
    if default is None or type(value) is kind or (kind is float and type(value) is int):
        return
    raise InputError(f"model_overrides: {name} must be like its default {shown(default)}, not {shown(value)}")


def _check_architecture(name: str, config: Any, head: str) -> None:
    """Build the model without memory for its weights."""
    import torch
    import transformers

    try:
        with torch.device("meta"):
            getattr(transformers, head).from_config(config)
    # A width that its heads do not divide, an architecture without this head: each raises another class.
    except Exception as error:
        raise InputError(f"a model cannot be built from {name}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
