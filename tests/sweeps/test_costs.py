"""Step times by batch size, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sweeps.costs import Measurement, cost_model, largest_useful
from training.contract.errors import TrainfareError


def row(batch_size: int, step_seconds: float, devices: int = 1) -> Measurement:
    return Measurement(
        batch_size=batch_size,
        fits=True,
        step_seconds=step_seconds,
        samples_per_second=batch_size * devices / step_seconds,
    )


LINE = [row(8, 0.28), row(16, 0.36), row(32, 0.52), row(64, 0.84)]
"""0.2 s per step and 0.01 s per sample."""


def test_step_times_between_measured_sizes_are_interpolated() -> None:
    costs = cost_model(LINE)
    assert costs.step_seconds(48) == pytest.approx(0.68)
    assert costs.samples_per_second(8) == pytest.approx(8 / 0.28)
    # A step of 0.4 s holds 8 samples on each of 2 devices.
    assert cost_model([row(8, 0.4, devices=2)]).samples_per_second(8) == pytest.approx(40)


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
