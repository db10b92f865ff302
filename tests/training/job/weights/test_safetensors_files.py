"""Our reader of safetensors files, for containers without the library, agrees with the library."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from training.job.weights.pretrained import needs_own_reader, read_safetensors


def test_tensors_equal_the_librarys(tmp_path: Path) -> None:
    torch.manual_seed(0)
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16]
    kinds += [torch.int8, torch.uint8, torch.bool]
    tensors = {f"layer {at}": (torch.randn(3, at) * 3).to(kind) for at, kind in enumerate(kinds)}
    tensors |= {"a number": torch.tensor(2.5), "odd": torch.ones(3, dtype=torch.uint8)}
    save_file(tensors, tmp_path / "model-00001-of-00002.safetensors", metadata={"format": "pt"})
    save_file({"é": torch.arange(5)}, tmp_path / "model-00002-of-00002.safetensors")
    result = read_safetensors(tmp_path)
    expected = {name: each for file in tmp_path.iterdir() for name, each in load_file(file).items()}
    assert set(result) == set(expected)
    for name, tensor in expected.items():
        assert result[name].dtype == tensor.dtype
        assert torch.equal(result[name], tensor)


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    save_file({"a": torch.randn(100)}, tmp_path / "model.safetensors")
    content = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[:-1])
    with pytest.raises(ValueError, match=f"is truncated at byte {len(content) - 1}"):
        read_safetensors(tmp_path)


def test_current_versions_do_not_need_the_reader(tiny_model: Path) -> None:
    assert not needs_own_reader(tiny_model)
