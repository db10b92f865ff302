"""Step times by batch size, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sweeps.costs import Measurement, cost_model, fit_line, largest_useful
from training.contract.errors import TrainfareError


def row(batch_size: int, step_seconds: float, devices: int = 1, error: float = 0.0) -> Measurement:
    """A size that fits; `error` is half of the interval, as a share."""
    return Measurement(
        batch_size=batch_size,
        fits=True,
        step_seconds=step_seconds,
        low=step_seconds * (1 - error),
        high=step_seconds * (1 + error),
        samples_per_second=batch_size * devices / step_seconds,
    )


LINE = [row(8, 0.28), row(16, 0.36), row(32, 0.52), row(64, 0.84)]
"""0.2 s per step and 0.01 s per sample."""


def test_a_line_is_fitted() -> None:
    line = fit_line(LINE)
    assert line.step_seconds_fixed == pytest.approx(0.2)
    assert line.step_seconds_per_sample == pytest.approx(0.01)
    assert line.relative_error == pytest.approx(0, abs=1e-9)
    # A size with a wide interval has little weight.
    assert fit_line([*LINE, row(128, 3.0, error=1.0)]).step_seconds(128) == pytest.approx(1.48, rel=0.05)
    # Steps that take more than twice as long at twice the size: the line through them would begin below 0.
    line = fit_line([row(8, 0.1), row(16, 0.3), row(32, 0.7)])
    assert line.step_seconds_fixed == 0
    assert line.step_seconds_per_sample > 0
    assert math.isnan(fit_line(LINE[:2]).relative_error)
    single = fit_line(LINE[:1])
    assert (single.step_seconds_fixed, single.step_seconds_per_sample) == (0.0, 0.035)


def test_the_error_is_the_distance_of_each_size_from_the_line_through_the_others() -> None:
    # Without 16 the others are 0.2 + 0.01 B, which says 0.36 where 0.72 was measured: off by half.
    # Without 8 (or 32) the line is that through 16 and the other, so the distances are worked out one by one.
    rows = [row(8, 0.28), row(16, 0.72), row(32, 0.52)]
    line = fit_line(rows)
    without_16 = abs(0.36 / 0.72 - 1)
    # 0.72 at 16 and 0.52 at 32 fall: with no slope below 0, one height by weights 1 / (0.72, 0.52)^2.
    weights = [1 / 0.72**2, 1 / 0.52**2]
    height = (0.72 * weights[0] + 0.52 * weights[1]) / sum(weights)
    without_8 = abs(height / 0.28 - 1)
    # 0.28 at 8 and 0.72 at 16 make 0.055 a sample and -0.16 a step: held at 0, the slope of least relative squares.
    slope = (8 / 0.28 + 16 / 0.72) / ((8 / 0.28) ** 2 + (16 / 0.72) ** 2)
    without_32 = abs(32 * slope / 0.52 - 1)
    assert line.relative_error == pytest.approx((without_8 + without_16 + without_32) / 3)


def test_the_line_is_corrected_towards_measured_sizes() -> None:
    costs = cost_model([row(8, 0.28), row(16, 0.36), row(32, 0.52), row(64, 0.84 * 1.2)])
    assert costs.step_seconds(64) == pytest.approx(0.84 * 1.2, rel=0.002)
    assert costs.samples_per_second(8) == pytest.approx(8 / 0.28, rel=0.002)
    # A step of 0.4 s holds 8 samples on each of 2 devices.
    assert cost_model([row(8, 0.4, devices=2)]).samples_per_second(8) == pytest.approx(40)
    at_32, at_64 = (costs.step_seconds(size) / costs.line.step_seconds(size) for size in (32, 64))
    middle = costs.step_seconds(45) / costs.line.step_seconds(45)
    share = math.log2(45 / 32)
    assert middle == pytest.approx(at_32 + share * (at_64 - at_32))
    # Beyond what was measured it is moved as at the end.
    assert costs.step_seconds(128) == pytest.approx(costs.line.step_seconds(128) * at_64)


def test_a_size_with_a_wide_interval_stays_on_the_line() -> None:
    # A standard error of 10 %, as much as steps lie off their line: half of what it is off, by its logarithm.
    costs = cost_model([*LINE, row(128, 3.0, error=0.196)])
    line = costs.line.step_seconds(128)
    assert costs.step_seconds(128) == pytest.approx(line * (3.0 / line) ** 0.5)


def test_the_largest_batch_is_known_if_a_larger_one_did_not_fit() -> None:
    assert cost_model([*LINE, Measurement(batch_size=128, fits=False)]).largest_batch_size == 64
    assert cost_model(LINE).largest_batch_size == math.inf


def test_a_calibration_without_a_fitting_size_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"none of the batch sizes .* fits in memory \(tried: 8\)"):
        cost_model([Measurement(batch_size=8, fits=False)])


def test_auto_takes_the_largest_size_that_gains_and_leaves_memory() -> None:
    # 8: 80/s, 16: 120/s, 32: 150/s, 64: 144/s = 96 % of the best, 128: 140/s = 93 %; of 10 GiB, 9.1 are too much.
    seconds, memory = (0.1, 16 / 120, 32 / 150, 64 / 144, 128 / 140), (1.0, 2.0, 4.0, 8.9, 9.1)
    sizes = [
        replace(row(2 ** (3 + at), each), peak_memory_gib=gib)
        for at, (each, gib) in enumerate(zip(seconds, memory, strict=True))
    ]
    too_large = Measurement(batch_size=256, fits=False)
    assert largest_useful([*sizes, too_large], 10.0) == largest_useful(sizes, None) == 64
    # 8.9 GiB are more than 90 % of 9.8, and 120/s is 80 % of 150/s. With 4.4 GiB, 16 is the best that is left.
    assert (largest_useful(sizes, 9.8), largest_useful(sizes, 4.4)) == (32, 16)
    # A faster size that leaves no memory does not raise the bar.
    assert largest_useful([*sizes[:3], replace(sizes[3], samples_per_second=1000.0)], 9.8) == 32
    with pytest.raises(TrainfareError, match="leaves a tenth of the memory free"):
        largest_useful([*sizes, too_large], 1.1)
