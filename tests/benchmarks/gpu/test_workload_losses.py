"""The comparison of losses over several seeds, on numbers worked out by hand."""

from __future__ import annotations

import pytest

from benchmarks.gpu.workloads import SEEDS, loss_rows

THEIRS = dict(zip(SEEDS, (1.0, 1.1, 0.9, 1.2, 0.8), strict=True))


def ours(*differences: float) -> dict[int, float]:
    return {seed: THEIRS[seed] + each for seed, each in zip(SEEDS, differences, strict=False)}


def test_a_loss_is_shown_not_to_be_higher_by_its_interval() -> None:
    # Mean 0.04 and standard deviation 0.1140; t(4) is 2.776, so the interval is 0.04 ± 0.1416 and shows nothing.
    row, _ = loss_rows("reviews", {"ours uncompiled": ours(0.2, 0.1, 0.0, -0.1, 0.0), "recipe": THEIRS})
    assert (row.value, row.n, row.met) == (pytest.approx(0.04), 5, False)
    assert row.target == "shown to be at most 0.02 higher: the 95 % interval ends there or below"
    assert row.spread == pytest.approx(0.1416, abs=1e-4)
    # Mean 0 and standard deviation 0.0158: ± 0.0196.
    row, seeds = loss_rows("reviews", {"ours uncompiled": ours(0.02, -0.02, 0.01, -0.01, 0.0), "recipe": THEIRS})
    assert (row.value, row.met, seeds.value, seeds.met) == (pytest.approx(0.0), True, 5, True)


def test_seeds_without_both_losses_are_missed() -> None:
    mean, seeds = loss_rows("reviews", {"ours uncompiled": ours(0.1, -0.1), "recipe": THEIRS})
    assert (mean.n, mean.met) == (2, False)
    assert (seeds.value, seeds.target, seeds.met) == (2, "at least 5 seeds", False)
    [only] = loss_rows("reviews", {"ours uncompiled": {}, "recipe": THEIRS})
    assert (only.value, only.met) == (0, False)
