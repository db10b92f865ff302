"""Selection of the layers to compile."""

from __future__ import annotations

from pathlib import Path

import torch

from training.job.compilation import compilers


def test_repeated_layers_are_those_of_the_outermost_stack(tiny_model: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(tiny_model)
    assert [type(layer).__name__ for layer in compilers.repeated_layers(model)] == ["BertLayer", "BertLayer"]
    assert compilers.repeated_layers(torch.nn.Linear(1, 1)) == []
    assert compilers.repeated_layers(torch.nn.ModuleList([torch.nn.Linear(1, 1)])) == []
