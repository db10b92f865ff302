"""Bulk dropout: rate, independence, gradients and random states."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from compilation import dropout

ORIGINAL = torch.nn.functional.dropout


@pytest.fixture
def installed() -> Iterator[None]:
    dropout.install()
    yield
    torch.nn.functional.dropout = ORIGINAL


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropped_share_and_scale_match_the_rate(installed: None, rate: float) -> None:
    torch.manual_seed(1)
    ones = torch.ones(1000, 1000)
    output = torch.nn.functional.dropout(ones, rate)
    dropped = float((output == 0).float().mean())
    # Five standard deviations of a million draws.
    assert abs(dropped - rate) < 5 * (rate * (1 - rate) / 1e6) ** 0.5 + 1 / dropout.LEVELS
    assert output.max() == pytest.approx(1 / (1 - rate), rel=1e-3)
    assert float(output.mean()) == pytest.approx(1, abs=0.02)


def test_neighbours_are_dropped_independently(installed: None) -> None:
    """Four elements share one draw of 64 bits."""
    torch.manual_seed(2)
    kept = (torch.nn.functional.dropout(torch.ones(4_000_000), 0.5) > 0).double()
    for distance in (1, 2, 3, 4, 8):
        correlation = torch.corrcoef(torch.stack([kept[:-distance], kept[distance:]]))[0, 1]
        assert abs(float(correlation)) < 5 / 4_000_000**0.5
    for lane in range(4):
        assert float(kept[lane::4].mean()) == pytest.approx(0.5, abs=0.0025)


def test_gradients_have_the_same_mask_as_values(installed: None) -> None:
    values = torch.randn(7, 5, requires_grad=True)
    output = torch.nn.Dropout(0.3)(values)
    output.sum().backward()
    assert values.grad is not None
    assert torch.equal(values.grad == 0, output == 0)
    assert torch.allclose(output, values * values.grad)


def test_the_state_of_the_generator_determines_the_mask(installed: None) -> None:
    state = torch.get_rng_state()
    first, second = (torch.nn.functional.dropout(torch.ones(100), 0.5) for _ in range(2))
    torch.set_rng_state(state)
    assert torch.equal(torch.nn.functional.dropout(torch.ones(100), 0.5), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5])
def test_every_size_works(installed: None, size: int) -> None:
    assert torch.nn.functional.dropout(torch.ones(size, dtype=torch.bfloat16), 0.1).shape == (size,)


def test_rates_without_a_bulk_version_use_pytorch(installed: None) -> None:
    values = torch.randn(50)
    assert torch.equal(torch.nn.functional.dropout(values, 0.5, training=False), values)
    assert torch.equal(torch.nn.functional.dropout(values, 0.0), values)
    assert torch.nn.functional.dropout(values, 1.0).abs().sum() == 0
    # Rounds to 65536 of 65536, which has no scale.
    assert torch.isfinite(torch.nn.functional.dropout(values, 0.999999)).all()
    with pytest.raises(ValueError, match="probability"):
        torch.nn.functional.dropout(values, 1.5)
