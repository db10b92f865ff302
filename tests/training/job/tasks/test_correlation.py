"""Test correlations against hand-worked values."""

from __future__ import annotations

import numpy as np
import pytest

from training.job.tasks.row_scores import pearson, ranks, spearman

FIRST, SECOND = np.array([1.0, 2.0, 2.0, 5.0]), np.array([3.0, 4.0, 1.0, 9.0])


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert ranks(np.array([7, 3, 7, 9, 3, 7])).tolist() == [3, 0.5, 3, 5, 0.5, 3]


def test_correlations_of_four_numbers() -> None:
    # Deviations (-1.5, -0.5, -0.5, 2.5) and (-1.25, -0.25, -3.25, 4.75): 15.5 / sqrt(9 * 34.75).
    assert pearson(FIRST, SECOND) == pytest.approx(15.5 / np.sqrt(9 * 34.75), abs=1e-15)
    # Ranks (0, 1.5, 1.5, 3) and (1, 2, 0, 3): deviations (-1.5, 0, 0, 1.5) and (-0.5, 0.5, -1.5, 1.5).
    assert spearman(FIRST, SECOND) == pytest.approx(3 / np.sqrt(4.5 * 5), abs=1e-15)
    assert spearman(FIRST, -FIRST) == pytest.approx(-1)


def test_a_constant_has_no_correlation() -> None:
    assert pearson(FIRST, np.ones(4)) == spearman(np.ones(4), FIRST) == 0.0
