"""Selection of the layers to compile, and the check for a C++ compiler."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from training.job.compilation import compilers
from training.job.processes.reporting import Unsupported


def test_repeated_layers_are_those_of_the_outermost_stack(tiny_model: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(tiny_model)
    assert [type(layer).__name__ for layer in compilers.repeated_layers(model)] == ["BertLayer", "BertLayer"]
    assert compilers.repeated_layers(torch.nn.Linear(1, 1)) == []
    assert compilers.repeated_layers(torch.nn.ModuleList([torch.nn.Linear(1, 1)])) == []


def test_inductor_requires_a_cpp_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compilers.Inductor().check()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(Unsupported, match=r"needs a C\+\+ compiler"):
        compilers.Inductor().check()
