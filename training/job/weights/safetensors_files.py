"""Read weights from safetensors files when transformers cannot, as in SageMaker's compiler images.

A file starts with an 8-byte little-endian length, followed by a JSON header of that length with each tensor's type,
shape and position, and then the tensors: https://github.com/huggingface/safetensors#format.
"""

import json
import struct
from pathlib import Path
from typing import Any, Dict

import torch
import transformers

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


def is_needed(folder: Path) -> bool:
    """Return True if a model folder has only safetensors weights and transformers cannot read them."""
    version = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    reads = version >= (4, 30) or (version >= (4, 23) and transformers.utils.is_safetensors_available())
    return not reads and bool(list(folder.glob("*.safetensors"))) and not list(folder.glob("pytorch_model*.bin"))


def load(auto_class: Any, folder: Path, **head: Any) -> Any:
    """Return the model in a folder. `head` has fields for its configuration."""
    config = transformers.AutoConfig.from_pretrained(str(folder), **head)
    return auto_class.from_pretrained(None, config=config, state_dict=read(folder), ignore_mismatched_sizes=True)


def read(folder: Path) -> Dict[str, Any]:
    """Return all tensors in the folder's files, by name. Raises `ValueError` for an incomplete file."""
    tensors: Dict[str, Any] = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(_read_file(file))
    return tensors


def _read_file(file: Path) -> Dict[str, Any]:
    content = bytearray(file.read_bytes())
    try:
        (length,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8 : 8 + length].decode("utf-8"))
        header.pop("__metadata__", None)
        return {name: _tensor(content, 8 + length, entry) for name, entry in header.items()}
    except (struct.error, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{file} is not a complete safetensors file: {error}") from error


def _tensor(content: bytearray, start: int, entry: Dict[str, Any]) -> Any:
    kind, shape = TYPES[entry["dtype"]], entry["shape"]
    begin, end = entry["data_offsets"]
    if start + end > len(content):
        raise ValueError(f"it is truncated at byte {len(content)}")
    if begin == end:
        return torch.empty(shape, dtype=kind)
    raw = torch.frombuffer(content, dtype=torch.uint8, count=end - begin, offset=start + begin)
    # Copy the bytes, because a tensor in the file may not be aligned for its type.
    return raw.clone().view(kind).reshape(shape)
