"""Clipping inside of the optimizer's step gives the weights that PyTorch's clipping gives."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch

from loop.gradient_clipping import optimizer_clipping, total_norm


def new_model() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))


@pytest.mark.parametrize("max_norm", [0.01, 1.0, 1e6])
def test_weights_equal_those_after_pytorchs_clipping(max_norm: float) -> None:
    """Also over several steps, some of whose gradients exceed the maximum."""
    ours = new_model()
    theirs = deepcopy(ours)
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.1, fused=True) for model in (ours, theirs)]
    clipping = optimizer_clipping(ours, optimizers[0], max_norm)
    assert clipping is not None
    for factor in (100.0, 0.001, 10.0):
        inputs = torch.randn(4, 5) * factor
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            model(inputs).square().sum().backward()
        norms = clipping.clip(), torch.nn.utils.clip_grad_norm_(theirs.parameters(), max_norm)
        assert torch.allclose(*norms)
        for optimizer in optimizers:
            optimizer.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, other, rtol=1e-4, atol=1e-6)


def test_the_norm_of_gradients_in_any_layout() -> None:
    """3, 4 and 12: the norm is 13."""
    gradients = [torch.full((1,), 3.0), torch.full((2, 2), 2.0), torch.full((6, 12), 2.0)[:, ::2]]
    assert not gradients[2].is_contiguous()
    assert float(total_norm(gradients)) == pytest.approx(13)
    assert float(total_norm([])) == 0


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda parameters: torch.optim.AdamW(parameters, fused=False),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    ],
)
def test_other_optimizers_clip_as_before(optimizer: Callable[[Any], Any]) -> None:
    model = new_model()
    assert optimizer_clipping(model, optimizer(model.parameters()), 1.0) is None
    half = new_model().to(torch.bfloat16)
    assert optimizer_clipping(half, torch.optim.AdamW(half.parameters(), fused=True), 1.0) is None
