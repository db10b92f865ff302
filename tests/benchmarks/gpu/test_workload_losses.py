"""The comparison of losses over several seeds, on numbers worked out by hand."""

from __future__ import annotations

import pytest

from benchmarks.gpu.workloads import SEEDS, loss_rows

THEIRS = dict(zip(SEEDS, (1.0, 1.1, 0.9, 1.2, 0.8), strict=True))


def ours(*differences: float) -> dict[int, float]:
    return {seed: THEIRS[seed] + each for seed, each in zip(SEEDS, differences, strict=False)}


def test_only_differences_of_one_sign_show_a_higher_loss() -> None:
    # Mean 0.04 and standard deviation 0.1140; t(4) is 2.776, so the interval is 0.04 ± 0.1416.
    [row] = loss_rows("reviews", {"ours uncompiled": ours(0.2, 0.1, 0.0, -0.1, 0.0), "recipe": THEIRS})
    assert (row.value, row.n, row.met) == (pytest.approx(0.04), 5, True)
    assert row.target == "not shown to be higher: the 95 % interval starts at or below 0"
    assert row.spread == pytest.approx(0.1416, abs=1e-4)
    [row] = loss_rows("reviews", {"ours uncompiled": ours(0.1, 0.12, 0.09, 0.11, 0.08), "recipe": THEIRS})
    assert (row.value, row.met) == (pytest.approx(0.1), False)


def test_seeds_without_both_losses_are_missed() -> None:
    mean, seeds = loss_rows("reviews", {"ours uncompiled": ours(0.1, -0.1), "recipe": THEIRS})
    assert (mean.n, mean.met) == (2, True)
    assert (seeds.value, seeds.target, seeds.met) == (2, "at least 5 seeds", False)
    [only] = loss_rows("reviews", {"ours uncompiled": {}, "recipe": THEIRS})
    assert (only.value, only.met) == (0, False)
