"""Load a model with a task's head, from its weights or only from its configuration, and save its tokenizer."""

import inspect
import json
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional

import torch
import transformers

from training.job.compilation import blockwise
from training.job.processes.protocols import Model
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
    revision: Optional[str] = None
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


def load(auto_class: Any, pretrained: Pretrained, **head: object) -> Model:
    """Return the model with its weights in single precision. `head` has fields for its configuration.

    Raises `ArgumentError` when the model cannot be found or read, and `Unsupported` when it does not support the
    attention implementation.
    """
    source: Dict[str, object] = {} if pretrained.is_folder else {"revision": pretrained.revision or "main"}
    options: Dict[str, object] = {**source, **_attention(pretrained.attention)}
    try:
        if pretrained.weights == "random":
            config = transformers.AutoConfig.from_pretrained(pretrained.location, **source, **head)
            model = auto_class.from_config(config, **_attention(pretrained.attention))
        else:
            location: Optional[str] = pretrained.location
            if needs_own_reader(Path(pretrained.location)):
                fields = {**_attention(pretrained.attention), **head}
                config = transformers.AutoConfig.from_pretrained(pretrained.location, **fields)
                location, options = None, {"config": config, "state_dict": read_safetensors(Path(pretrained.location))}
            else:
                options.update(head)
                options.update(_in_4_bits(auto_class, pretrained, head) if pretrained.quantized else {})
            model, loaded = auto_class.from_pretrained(
                location, ignore_mismatched_sizes=True, output_loading_info=True, **options
            )
            other_sizes = (each if isinstance(each, str) else each[0] for each in loaded.get("mismatched_keys", ()))
            model.new_weights = {*loaded["missing_keys"], *other_sizes}
    except (OSError, ValueError) as error:
        message = str(error).strip().splitlines()[0]
        raise ArgumentError(f"model {pretrained.location!r} cannot be loaded: {message}") from error
    except ImportError as error:
        raise Unsupported(f"attention {pretrained.attention}: {str(error).strip().splitlines()[0]}") from error
    # Newer versions of transformers keep the precision of the saved weights, but optimizers need single precision.
    single: Model = model if pretrained.quantized else model.float()
    return single


def _in_4_bits(auto_class: Any, pretrained: Pretrained, head: Dict[str, object]) -> Dict[str, Any]:
    with torch.device("meta"):
        config = transformers.AutoConfig.from_pretrained(pretrained.location, **head)
        return adapters.quantization(auto_class.from_config(config))


def set_attention(model: Model, attention: str) -> bool:
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


def supports_token_types(model: Model, highest: int) -> bool:
    """Return True if the model accepts token types from 0 to `highest`.

    A tokenizer may produce types that its model does not accept: DistilBERT accepts none, RoBERTa only type 0.
    """
    type_count = getattr(model.config, "type_vocab_size", highest + 1)
    return "token_type_ids" in inspect.signature(model.forward).parameters and highest < type_count


def save_tokenizer(location: str, revision: Optional[str], folder: Path) -> None:
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


def _attention(attention: str) -> Dict[str, object]:
    if attention == "auto":
        return {}
    if attention == blockwise.NAME and not blockwise.register():
        raise Unsupported(
            f"attention {attention} needs transformers 5, but {transformers.__version__} is installed: use auto"
        )
    # The argument exists since transformers 4.36. Earlier versions had only eager attention.
    if tuple(int(part) for part in transformers.__version__.split(".")[:2]) >= (4, 36):
        return {"attn_implementation": attention}
    if attention == "eager":
        return {}
    raise Unsupported(
        f"attention {attention} needs transformers 4.36 or later, but {transformers.__version__} is installed"
    )


TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def needs_own_reader(folder: Path) -> bool:
    """Return True if a model folder has only safetensors weights that transformers cannot read.

    This is so in SageMaker's compiler images.
    """
    version = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    reads = version >= (4, 30) or (version >= (4, 23) and transformers.utils.is_safetensors_available())
    return not reads and bool(list(folder.glob("*.safetensors"))) and not list(folder.glob("pytorch_model*.bin"))


def read_safetensors(folder: Path) -> Dict[str, torch.Tensor]:
    """Return all tensors in the folder's files, by name. Raises `ValueError` for an incomplete file.

    A file starts with an 8-byte little-endian length, followed by a JSON header of that length with each tensor's type,
    shape and position, and then the tensors: https://github.com/huggingface/safetensors#format.
    """
    tensors: Dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        content = bytearray(file.read_bytes())
        try:
            (length,) = struct.unpack_from("<Q", content)
            header = json.loads(content[8 : 8 + length].decode("utf-8"))
            header.pop("__metadata__", None)
            tensors.update({name: _tensor(content, 8 + length, entry) for name, entry in header.items()})
        except (struct.error, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise ValueError(f"{file} is not a complete safetensors file: {error}") from error
    return tensors


def _tensor(content: bytearray, start: int, entry: Dict[str, Any]) -> torch.Tensor:
    kind, shape = TYPES[entry["dtype"]], entry["shape"]
    begin, end = entry["data_offsets"]
    if start + end > len(content):
        raise ValueError(f"it is truncated at byte {len(content)}")
    if begin == end:
        return torch.empty(shape, dtype=kind)
    raw = torch.frombuffer(content, dtype=torch.uint8, count=end - begin, offset=start + begin)
    # Copy the bytes, because a tensor in the file may not be aligned for its type.
    return raw.clone().view(kind).reshape(shape)
