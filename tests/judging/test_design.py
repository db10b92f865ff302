"""Test the significance levels of looks against published bounds."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from judging.design import Design, early_spending, look_levels


def test_one_look_has_the_whole_error() -> None:
    assert look_levels((9,)) == pytest.approx([0.05])


def test_comparisons_with_several_baselines_share_the_error() -> None:
    assert Design(looks=(9,), families=2).levels() == pytest.approx([0.025])
    assert Design(looks=(9,), families=2).levels(5) == pytest.approx([0.005])


def test_five_even_looks_have_the_published_bounds() -> None:
    # Lan and DeMets' Pocock-type spending at 5 %, two-sided: the bounds that R's package ldbounds documents.
    levels = look_levels((1, 2, 3, 4, 5), spending=lambda share, error: error * math.log(1 + (math.e - 1) * share))
    bounds = [norm.isf(level / 2) for level in levels]
    assert bounds == pytest.approx([2.4380, 2.4268, 2.4101, 2.3966, 2.3859], abs=2e-4)


def test_the_first_of_three_even_looks_spends_two_thirds() -> None:
    # (1 - exp(-1)) / (1 - exp(-3)) = 0.632121 / 0.950213 = 0.665241
    assert early_spending(1 / 3, 0.05) == pytest.approx(0.05 * 0.665241, abs=1e-7)
    assert (early_spending(0.0, 0.05), early_spending(1.0, 0.05)) == pytest.approx((0.0, 0.05))


def test_levels_by_default() -> None:
    assert Design().levels() == pytest.approx((0.0333, 0.0179, 0.0120, 0.0078), abs=1e-4)
    assert Design().quality_levels() == pytest.approx((0.0333, 0.0197, 0.0137, 0.0093), abs=1e-4)
