"""Weights in safetensors files, read for versions of transformers that cannot read them themselves.

SageMaker's compiler images are such. The format: 8 bytes with the length of a JSON header, little endian, the header
with each tensor's type, shape and place, then the tensors; https://github.com/huggingface/safetensors#format.
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


def needed(folder: Path) -> bool:
    """Tell whether a model's folder has its weights in this format alone, and transformers cannot read it."""
    version = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    reads = version >= (4, 30) or (version >= (4, 23) and transformers.utils.is_safetensors_available())
    return not reads and bool(list(folder.glob("*.safetensors"))) and not list(folder.glob("pytorch_model*.bin"))


def load(auto_class: Any, folder: Path, **head: Any) -> Any:
    """Return the folder's model; `head` are fields of its configuration."""
    config = transformers.AutoConfig.from_pretrained(str(folder), **head)
    return auto_class.from_pretrained(None, config=config, state_dict=read(folder), ignore_mismatched_sizes=True)


def read(folder: Path) -> Dict[str, Any]:
    """Return all tensors of the folder's files by name. Raises `ValueError` for a file that is not whole."""
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
        return {name: _tensor(content, 8 + length, facts) for name, facts in header.items()}
    except (struct.error, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{file} is not a whole safetensors file: {error}") from error


def _tensor(content: bytearray, start: int, facts: Dict[str, Any]) -> Any:
    kind, shape = TYPES[facts["dtype"]], facts["shape"]
    begin, end = facts["data_offsets"]
    if start + end > len(content):
        raise ValueError(f"it ends at byte {len(content)}")
    if begin == end:
        return torch.empty(shape, dtype=kind)
    raw = torch.frombuffer(content, dtype=torch.uint8, count=end - begin, offset=start + begin)
    # A copy, for the tensors of a file need not begin where their type demands.
    return raw.clone().view(kind).reshape(shape)
