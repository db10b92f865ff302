"""Liger's kernels: where they are refused, and which of them a task uses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from training.job.compilation import liger
from training.job.processes.reporting import Unsupported


def test_they_need_a_gpu_the_package_and_a_recent_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unsupported, match=r"^kernels liger needs an NVIDIA GPU, but this job runs on cpu: use"):
        liger.check("cpu")
    monkeypatch.setattr(liger.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unsupported, match="needs the package liger-kernel, which is not installed: run `pip install"):
        liger.check("cuda")
    monkeypatch.setattr(liger.importlib.util, "find_spec", lambda name: SimpleNamespace(name=name))
    liger.check("cuda")
    monkeypatch.setattr(torch, "__version__", "2.2.1")
    with pytest.raises(Unsupported, match=r"needs torch 2\.3 or later, but torch 2\.2\.1 is installed: use kernels"):
        liger.check("cuda")


def test_a_task_or_model_type_without_kernels_has_none() -> None:
    assert liger.options(predicts_tokens=True) == {"cross_entropy": False}
    assert liger.options(predicts_tokens=False) == {"cross_entropy": False, "fused_linear_cross_entropy": False}
    liger.check_model_type("llama", {"llama": None})
    with pytest.raises(Unsupported, match="kernels liger does not support model type 'bert', only decoders such as"):
        liger.check_model_type("bert", {"llama": None})
