"""Liger's kernels: where they are refused, and which of them a task uses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import transformers

from compilation import liger
from reporting.errors import Unsupported


def test_they_need_a_gpu_the_package_and_a_recent_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("cpu", "xla"):
        with pytest.raises(Unsupported, match=f"^kernels liger needs an NVIDIA GPU, but this job runs on {kind}: use"):
            liger.check(kind)
    monkeypatch.setattr(liger.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unsupported) as error:
        liger.check("cuda")
    assert str(error.value) == (
        "kernels liger needs the package liger-kernel, which is not installed: run `pip install liger-kernel`, or use "
        "kernels torch"
    )
    monkeypatch.setattr(liger.importlib.util, "find_spec", lambda name: SimpleNamespace(name=name))
    liger.check("cuda")
    monkeypatch.setattr(torch, "__version__", "2.2.1")
    with pytest.raises(
        Unsupported, match=r"needs torch 2\.3 or later, but torch 2\.2\.1 is installed: use kernels torch"
    ):
        liger.check("cuda")


def test_a_model_type_without_kernels_is_refused() -> None:
    liger.check_model_type("llama", {"llama": None})
    with pytest.raises(Unsupported) as error:
        liger.check_model_type("bert", {"llama": None})
    assert str(error.value) == (
        "kernels liger does not support model type 'bert', only decoders such as gemma2, llama, mistral, phi3 and "
        "qwen3 (list: https://github.com/linkedin/Liger-Kernel): use kernels torch"
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine may have the package")
def test_a_package_that_cannot_be_imported_is_reported() -> None:
    model = transformers.BertModel(transformers.BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2))
    with pytest.raises(Unsupported, match=r"^kernels liger: the installed liger-kernel cannot be imported"):
        liger.apply(model, "classification")


def test_only_language_models_use_the_fused_loss() -> None:
    assert liger.options("causal-lm") == {"cross_entropy": False}
    for task in ("classification", "question-answering"):
        assert liger.options(task) == {"cross_entropy": False, "fused_linear_cross_entropy": False}
