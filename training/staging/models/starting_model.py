"""The model that a job starts from: one with weights, or one that is built from scratch."""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.contract.errors import InputError, first_line, nearest, short_text
from training.job.tasks import TASKS
from training.staging.models.model_files import (
    CHAT_TEMPLATE_FILE,
    TOKENIZER_FILES,
    ModelSource,
    check_max_length,
    check_weights,
    locate,
    locate_tokenizer,
    read_config,
    usable_positions,
)
from training.staging.sources.request import StagingRequest

NOT_OVERRIDDEN = frozenset({"model_type", "transformers_version", "architectures"})
SPECIAL_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id")


@dataclass(frozen=True, kw_only=True)
class StartingModel:
    """The tokenizer, and the model to build if the job does not start from pretrained weights."""

    tokenizer: ModelSource
    """Source of the tokenizer: the model itself, or the tokenizer that was chosen for a model from scratch."""
    scratch: ModelFromScratch | None
    """Model to build from scratch; None starts from the model's pretrained weights."""


def find_starting_model(request: StagingRequest, home: Path) -> StartingModel:
    """Find the model and the tokenizer. Raises InputError if weights are missing or `max_length` is too long."""
    base = locate(request.model, request.model_revision) if request.model is not None else None
    if base is not None and request.weights == "pretrained":
        check_weights(base)
        if base.folder is not None:  # a Hub model is not here yet
            check_lengths(base.name, read_config(base.folder), request)
        return StartingModel(tokenizer=base, scratch=None)
    tokenizer = base if request.tokenizer is None else locate_tokenizer(request.tokenizer, home / "tokenizers")
    assert tokenizer is not None, "the experiment requires a tokenizer with a model_type"
    scratch = ModelFromScratch(
        model_type=request.model_type, base=base, overrides=request.model_overrides, tokenizer=tokenizer
    )
    return StartingModel(tokenizer=tokenizer, scratch=scratch)


def check_hub_lengths(model: StartingModel, request: StagingRequest) -> None:
    """Raise InputError if a length exceeds the positions of a pretrained Hub model, by its configuration."""
    from transformers import AutoConfig

    source = model.tokenizer
    if model.scratch is not None or source.folder is not None:
        return
    try:
        config = AutoConfig.from_pretrained(source.name, revision=source.revision or "main", trust_remote_code=False)
    except Exception:  # The job loads the model and reports the reason.
        return
    check_lengths(source.name, config.to_dict(), request)


def check_lengths(name: str, config: Mapping[str, Any], request: StagingRequest) -> None:
    """Raise InputError if `max_length`, or another length of the task, exceeds the positions of a model."""
    longest = usable_positions(config)
    check_max_length(name, longest, request.max_length)
    for field in TASKS[request.task].length_options:
        check_max_length(name, longest, request.options[field], field)


@dataclass(frozen=True, kw_only=True)
class ModelFromScratch:
    """Architecture, configuration and tokenizer of a model with random weights."""

    model_type: str | None
    """Architecture with its default configuration, such as `gpt2`; None uses the configuration of `base`."""
    base: ModelSource | None
    """Model that provides the configuration; None if `model_type` does."""
    overrides: Mapping[str, Any]
    """Configuration fields that replace the default values."""
    tokenizer: ModelSource
    """Tokenizer; its vocabulary determines the size of the embeddings."""

    @property
    def name(self) -> str:
        return self.base.name if self.base else f"model_type {self.model_type}"

    def identity(self) -> list[Any]:
        """Return everything that determines the written files. Defaults differ between versions of Transformers."""
        base = self.base.tokenizer_identity() if self.base else self.model_type
        return [base, sorted(self.overrides.items()), importlib.metadata.version("transformers")]

    def configuration(self, request: StagingRequest) -> Any:
        """Return the configuration. Raises InputError for an invalid override or a too long `max_length`."""
        default = self._load_configuration({})
        known = {*default.to_dict(), *default.attribute_map} - NOT_OVERRIDDEN
        for name, value in self.overrides.items():
            if name not in known:
                raise InputError(f"model_overrides: {self.name} has no field {name!r}.{nearest(name, known)}")
            own = getattr(default, name, None)
            if own is None or type(value) is type(own) or (type(own) is float and type(value) is int):
                continue
            raise InputError(
                f"model_overrides.{name} is {short_text(value)}; it must have the type of its default, "
                f"{short_text(own)}"
            )
        config = self._load_configuration(self.overrides)
        check_lengths(self.name, config.to_dict(), request)
        return config

    def _load_configuration(self, fields: Mapping[str, Any]) -> Any:
        from transformers import CONFIG_MAPPING, AutoConfig

        if self.model_type is not None and self.model_type not in CONFIG_MAPPING:
            raise InputError(
                f"model_type {self.model_type!r} is unknown to Transformers.{nearest(self.model_type, CONFIG_MAPPING)}"
            )
        try:
            if self.model_type is not None:
                return AutoConfig.for_model(self.model_type, **fields)
            assert self.base is not None, "a model from scratch has a model_type or a base"
            return AutoConfig.from_pretrained(self.base.location, revision=self.base.revision or "main", **fields)
        # An unknown name, a missing network and an invalid value raise different classes.
        except Exception as error:
            raise InputError(f"the configuration of {self.name} cannot be created: {first_line(error)}") from error

    def write(self, config: Any, tokenizer: Any, head: str, folder: Path) -> None:
        """Write the model's configuration, adapted to the tokenizer, and the tokenizer's files.

        `head` is the Transformers class that the job will build. Raises InputError if the model cannot be built.
        """
        import torch
        import transformers

        self._adapt_to_tokenizer(config, tokenizer)
        try:
            with torch.device("meta"):  # without memory for weights
                getattr(transformers, head).from_config(config)
        # A hidden size that is not a multiple of the heads and an architecture without this head differ in their class.
        except Exception as error:
            raise InputError(f"a model cannot be built from {self.name}: {first_line(error)}") from error
        folder.mkdir(parents=True)
        config.save_pretrained(folder)
        if self.tokenizer.folder is None:
            tokenizer.save_pretrained(folder)
            return
        # Copied, because saving a loaded tokenizer might convert it to a format that a container cannot read.
        for name in (*TOKENIZER_FILES, CHAT_TEMPLATE_FILE):
            if (self.tokenizer.folder / name).is_file():
                shutil.copyfile(self.tokenizer.folder / name, folder / name)

    def _adapt_to_tokenizer(self, config: Any, tokenizer: Any) -> None:
        """Adapt the configuration's vocabulary size and special tokens to the tokenizer."""
        if not hasattr(config, "vocab_size"):
            raise InputError(f"{self.name} is not a language model: its configuration has no vocab_size")
        size = len(tokenizer)
        if config.vocab_size < size and ("vocab_size" in self.overrides):
            raise InputError(f"model_overrides.vocab_size is {config.vocab_size}, but the tokenizer has {size} tokens")
        if self.tokenizer == self.base:
            config.vocab_size = max(config.vocab_size, size)
            return
        config.vocab_size = config.vocab_size if "vocab_size" in self.overrides else size
        before = {getattr(config, name, None): name for name in SPECIAL_TOKENS}
        for name in SPECIAL_TOKENS:
            if hasattr(config, name) and name not in self.overrides:
                setattr(config, name, getattr(tokenizer, name, None))
        if config.is_encoder_decoder:
            self._adapt_decoder(config, tokenizer, before)

    def _adapt_decoder(self, config: Any, tokenizer: Any, before: Mapping[int | None, str]) -> None:
        """Adapt the tokens with which a decoder starts and ends.

        `before` names the configuration's special tokens before they were adapted: BART starts with its end token, T5
        with its padding, which its configuration leaves out.
        """
        if config.eos_token_id is None:
            config.eos_token_id = tokenizer.sep_token_id
        if config.pad_token_id is None:
            config.pad_token_id = config.eos_token_id
        for name in ("decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id"):
            token, otherwise = getattr(config, name, None), "pad_token_id" if name == "decoder_start_token_id" else None
            same = otherwise if token is None else before.get(token, otherwise)
            if name not in self.overrides and same:
                setattr(config, name, getattr(config, same))
