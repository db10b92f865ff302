"""Made-up surfaces follow their laws."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.recorded.surfaces import FAMILIES, Family, Laws, surface
from sweeps.space.grid import Point

LAWS = Laws(critical_batch=32, fixed_share=0.5, rate_octaves=0.0, divergence=3.0, scaling=1.0)
"""The experiment's rate is the best one up to batch 32, and twice the best at 64."""


def test_samples_grow_with_the_batch_size() -> None:
    # S = S_min (1 + B_crit / B) steps are S_min (B + B_crit) samples: here 2000 (1 + B / 32).
    assert [LAWS.samples(Point(size)) for size in (8, 32)] == [2500, 4000]


def test_the_best_rate_is_linear_then_flat() -> None:
    assert [LAWS.rate(Point(size)) for size in (8, 32, 64, 128)] == [1, 1, 2, 4]
    assert LAWS.rate(Point(64, 0.5)) == 1
    assert replace(LAWS, rate_octaves=1.0).rate(Point(32)) == 0.5


def test_other_rates_take_more_samples_until_they_diverge() -> None:
    assert LAWS.samples(Point(32, 0.5)) == pytest.approx(4000 / 0.75)
    # Twice the best rate is half of the way to 3, where it diverges.
    assert LAWS.samples(Point(32, 2.0)) == pytest.approx(4000 / 0.75)
    assert LAWS.samples(Point(32, 4.0)) == math.inf


def test_a_step_has_a_fixed_part() -> None:
    assert [LAWS.seconds_per_step(size) for size in (32, 64)] == pytest.approx([0.2, 0.3])


@pytest.mark.parametrize("name", FAMILIES)
def test_a_surface_has_a_best_point_and_noise_between_seeds(name: str) -> None:
    family = FAMILIES[name]
    grid = surface(family, 3)
    assert len(grid.runs) == 30
    assert math.isfinite(grid.best_cost)
    best = min(grid.runs, key=grid.cost)
    assert best.batch_size <= family.largest_fitting
    assert len({run.ended.billable_instance_seconds for run in grid.runs[best]}) == 5
    assert surface(family, 3).runs == grid.runs
    assert surface(family, 4).runs != grid.runs


def test_without_departures_a_surface_is_its_laws() -> None:
    still = Family(
        seed_error=(1e-9, 1e-9), smooth=(1e-9, 1e-9), rough=(1e-9, 1e-9), bend=(1e-9, 1e-9), rate_octaves=(0, 0),
        divergence=(8, 8), scaling=(1, 1), critical_batch=(4096, 4096), fixed_share=(0.5, 0.5),
    )  # fmt: skip
    grid = surface(still, 0)
    # Below the critical batch every size takes about the same samples; multiplier 1 is the best rate.
    samples = [grid.runs[Point(size)][0].ended.samples for size in (8, 32)]
    every = grid.search.samples / 25
    assert samples == pytest.approx([2000 * (1 + 8 / 4096), 2000 * (1 + 32 / 4096)], abs=1.2 * every)
    assert min(grid.runs, key=grid.cost).multiplier == 1
