"""Intervals of the next job, worked out by hand."""

from __future__ import annotations

import math

import pytest

from judging.next_job import JobSpread, are_separated, job_spread, next_job_error

MANY = JobSpread(0.037, 1000, math.inf)


def test_the_interval_of_the_next_job_by_hand() -> None:
    # 1.25 * 0.05 = 0.0625; 1.96 * sqrt(2) * 0.037 = 0.102558; sqrt(0.0625^2 + 0.102558^2) = 0.120104.
    assert next_job_error(0.05, MANY) == pytest.approx(0.120104, abs=1e-5)
    assert next_job_error(0.0, MANY) == pytest.approx(0.102558, abs=1e-5)


def test_the_spread_between_jobs_is_pooled_over_settings() -> None:
    # Deviations of the logarithms: -0.05 and 0.05; -0.02, 0, 0.02 and, in the third setting, -0.01 and 0.01.
    # Squares: 0.005 + 0.0008 + 0.0002 = 0.006, over 1 + 2 + 1 = 4 degrees of freedom: sqrt(0.0015) = 0.0387298.
    settings = [
        [100 * math.exp(-0.05), 100 * math.exp(0.05)],
        [math.exp(-0.02), 1.0, math.exp(0.02)],
        [50 * math.exp(-0.01), 50 * math.exp(0.01)],
        [70.0],
    ]
    spread = job_spread(settings)
    assert spread is not None
    assert (spread.relative, spread.jobs, spread.degrees_of_freedom) == (pytest.approx(0.0387298), 7, 4)
    # t(0.975, 4) = 2.776445.
    assert spread.error == pytest.approx(2.776445 * 0.0387298)


def test_few_jobs_give_no_spread() -> None:
    for few in ([], [[100.0]], [[100.0, 150.0, 200.0]], [[100.0, 110.0], [50.0, 80.0]]):
        assert job_spread(few) is None
    assert job_spread([[100.0, 110.0, 120.0, 130.0]]) is not None


def test_equal_jobs_do_not_prove_that_all_are_equal() -> None:
    assert job_spread([[100.0] * 5]) == JobSpread(0.001, 5, 4.0)


def test_two_settings_are_separated_by_hand() -> None:
    # Each job: 1.959964 * 0.037 = 0.072519; each projection: 1.25 * 0.02 = 0.025. sqrt(2) * hypot = 0.108480.
    # With the factor 1.2 it is 0.130176: separated from exp(0.130176) = 1.139029 on.
    for costs, expected in (((100.0, 113.8), False), ((100.0, 114.0), True), ((114.0, 100.0), True)):
        assert are_separated(costs, (0.02, 0.02), (MANY, MANY)) is expected
    assert not are_separated((0.0, 100.0), (0.0, 0.0), (MANY, MANY))
    assert not are_separated((100.0, 900.0), (0.0, 0.0), (MANY, None))
