"""Load a model with a task's head, from its weights or only from its configuration, and save its tokenizer."""

import inspect
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from training.job.compilation import blockwise
from training.job.processes.reporting import ArgumentError, Unsupported
from training.job.weights import adapters

TOKENIZER_FILES = (
    *("tokenizer*", "vocab.*", "merges.txt", "special_tokens_map.json", "added_tokens.json", "*.model"),
    "chat_template.jinja",
)


@dataclass(frozen=True)
class Pretrained:
    """Source of the model that a job trains."""

    location: str
    """Folder with the model's files, or its name on the Hub."""
    revision: str | None = None
    """Branch, tag or commit on the Hub; None means main."""
    weights: str = "pretrained"
    """pretrained | random. With random, the weights are initialised from the configuration."""
    attention: str = "auto"
    """Attention implementation: auto | blockwise | sdpa | eager | flash_attention_2. With auto, transformers selects
    it."""
    quantized: bool = False
    """True to load the matrices of the body in 4 bits."""

    @property
    def is_folder(self) -> bool:
        return Path(self.location).is_dir()


def load(auto_class: Any, pretrained: Pretrained, **head: object) -> transformers.PreTrainedModel:
    """Return the model with its weights in single precision. `head` has fields for its configuration.

    Raises `ArgumentError` when the model cannot be found or read, and `Unsupported` when it does not support the
    attention implementation.
    """
    source: dict[str, object] = {} if pretrained.is_folder else {"revision": pretrained.revision or "main"}
    options: dict[str, object] = {**source, **_attention(pretrained.attention)}
    try:
        if pretrained.weights == "random":
            config = transformers.AutoConfig.from_pretrained(pretrained.location, **source, **head)
            model = auto_class.from_config(config, **_attention(pretrained.attention))
        else:
            options.update(head)
            options.update(_in_4_bits(auto_class, pretrained, head) if pretrained.quantized else {})
            model, loaded = auto_class.from_pretrained(
                pretrained.location, ignore_mismatched_sizes=True, output_loading_info=True, **options
            )
            other_sizes = (each if isinstance(each, str) else each[0] for each in loaded.get("mismatched_keys", ()))
            model.new_weights = {*loaded["missing_keys"], *other_sizes}
    except (OSError, ValueError) as error:
        message = str(error).strip().splitlines()[0]
        raise ArgumentError(f"model {pretrained.location!r} cannot be loaded: {message}") from error
    except ImportError as error:
        raise Unsupported(f"attention {pretrained.attention}: {str(error).strip().splitlines()[0]}") from error
    # Newer versions of transformers keep the precision of the saved weights, but optimizers need single precision.
    single: transformers.PreTrainedModel = model if pretrained.quantized else model.float()
    return single


def _in_4_bits(auto_class: Any, pretrained: Pretrained, head: dict[str, object]) -> dict[str, Any]:
    with torch.device("meta"):
        config = transformers.AutoConfig.from_pretrained(pretrained.location, **head)
        return adapters.quantization(auto_class.from_config(config))


def set_attention(model: transformers.PreTrainedModel, attention: str) -> bool:
    """Change the attention implementation of a loaded model. Return False if the model does not have it.

    Since transformers 4.53, most models look up the implementation in every forward pass.
    """
    if getattr(model.config, "_attn_implementation", None) == attention:
        return True
    if not getattr(model, "_can_set_attn_implementation", lambda: False)():
        return False
    try:
        model.set_attn_implementation(attention)
    except (ValueError, ImportError):
        return False
    return getattr(model.config, "_attn_implementation", None) == attention


def supports_token_types(model: transformers.PreTrainedModel, highest: int) -> bool:
    """Return True if the model accepts token types from 0 to `highest`.

    A tokenizer may produce types that its model does not accept: DistilBERT accepts none, RoBERTa only type 0.
    """
    type_count = getattr(model.config, "type_vocab_size", highest + 1)
    return "token_type_ids" in inspect.signature(model.forward).parameters and highest < type_count


def save_tokenizer(location: str, revision: str | None, folder: Path) -> None:
    """Copy the tokenizer files of a model folder, or fetch the tokenizer from the Hub, into `folder`.

    The training itself does not use a tokenizer.
    """
    if not Path(location).is_dir():
        transformers.AutoTokenizer.from_pretrained(location, revision=revision or "main").save_pretrained(str(folder))
        return
    # Copy the files: loading and saving the tokenizer takes a second and can change it.
    for pattern in TOKENIZER_FILES:
        for file in Path(location).glob(pattern):
            if file.is_file():
                shutil.copy(str(file), str(folder / file.name))


def _attention(attention: str) -> dict[str, object]:
    if attention == "auto":
        return {}
    if attention == blockwise.NAME and not blockwise.register():
        raise Unsupported(
            f"attention {attention} needs transformers 5, but {transformers.__version__} is installed: use auto"
        )
    return {"attn_implementation": attention}
