"""A model with a task's head, from weights or from its configuration alone."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional

import transformers

from reporting.errors import ArgumentError, Unsupported
from weights import safetensors_files


@dataclass(frozen=True)
class Pretrained:
    """What a job starts from."""

    location: str
    """Folder with the model's files, or its name on the Hub."""
    revision: Optional[str] = None
    """Branch, tag or commit on the Hub; None is main."""
    weights: str = "pretrained"
    """pretrained | random: random builds the architecture from its configuration."""
    attention: str = "auto"
    """auto | sdpa | eager | flash_attention_2: how the model computes attention; auto leaves it to transformers."""

    @property
    def is_folder(self) -> bool:
        """Whether the files are on this machine."""
        return Path(self.location).is_dir()


def load(auto_class: Any, pretrained: Pretrained, **head: Any) -> Any:
    """Return the model, its weights in single precision; `head` are fields of its configuration.

    Raises `ArgumentError` when there is no such model, `Unsupported` for an attention that it does not have.
    """
    source: Dict[str, Any] = {} if pretrained.is_folder else {"revision": pretrained.revision or "main"}
    options = {**source, **_attention(pretrained.attention)}
    try:
        if pretrained.weights == "random":
            config = transformers.AutoConfig.from_pretrained(pretrained.location, **source, **head)
            model = auto_class.from_config(config, **_attention(pretrained.attention))
        elif safetensors_files.needed(Path(pretrained.location)):
            model = safetensors_files.load(
                auto_class, Path(pretrained.location), **_attention(pretrained.attention), **head
            )
        else:
            model = auto_class.from_pretrained(pretrained.location, ignore_mismatched_sizes=True, **options, **head)
    except (OSError, ValueError) as error:
        message = str(error).strip().splitlines()[0]
        raise ArgumentError(f"model {pretrained.location!r} cannot be loaded: {message}") from error
    except ImportError as error:
        raise Unsupported(f"attention {pretrained.attention}: {str(error).strip().splitlines()[0]}") from error
    # Newer versions load weights in the precision they were saved in; optimizers need single precision.
    return model.float()


def takes_types(model: Any, highest: int) -> bool:
    """Tell whether the model knows token types up to `highest`.

    A tokenizer may make types that its model has no use for: DistilBERT takes none, RoBERTa has the type 0 alone.
    """
    known = getattr(model.config, "type_vocab_size", highest + 1)
    return "token_type_ids" in inspect.signature(model.forward).parameters and highest < known


def _attention(attention: str) -> Dict[str, Any]:
    if attention == "auto":
        return {}
    # The argument came with transformers 4.36; until then all models had the eager kind alone.
    if tuple(int(part) for part in transformers.__version__.split(".")[:2]) >= (4, 36):
        return {"attn_implementation": attention}
    if attention == "eager":
        return {}
    raise Unsupported(f"attention {attention} needs transformers 4.36 or later; this is {transformers.__version__}")
