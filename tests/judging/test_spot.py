"""Expected time of interrupted trainings and the best interval, worked out by hand and simulated."""

from __future__ import annotations

import math
import random

import pytest

from judging.spot import DEFAULT_PER_HOUR, Training, daly_interval, expected_seconds

RATE = math.log(2) / 100
"""Half of all runs of 100 s are interrupted."""


def simulated_seconds(training: Training, rate: float, interval: float, draws: random.Random) -> float:
    """Return the time of one training that a Poisson clock interrupts, event by event."""
    clock, done, is_starting = 0.0, 0.0, True
    while done < training.work_seconds - 1e-9:
        interruption = draws.expovariate(rate)
        run = training.startup_seconds if is_starting else 0.0
        while run < interruption and done < training.work_seconds - 1e-9:
            part = min(interval, training.work_seconds - done)
            run += part + (training.checkpoint_seconds if math.isfinite(interval) else 0.0)
            done += part if run <= interruption else 0.0
        clock += min(run, interruption)
        is_starting = True
    return clock


def test_one_part_by_hand() -> None:
    """exp(rate 100) = 2, so 100 s of work are expected to take (2 - 1) / rate = 144.27 s: each second try fails."""
    training = Training(startup_seconds=0.0, work_seconds=100.0)
    assert expected_seconds(training, RATE) == pytest.approx(144.2695, abs=1e-4)


def test_a_rest_is_a_shorter_part() -> None:
    """250 s of work with checkpoints of 1 s after every 100 s: parts of 101, 101 and 51 s."""
    training = Training(startup_seconds=20.0, work_seconds=250.0, checkpoint_seconds=1.0)
    assert expected_seconds(training, 0.0, 100.0) == 273.0
    by_hand = math.expm1(RATE * 121) + math.exp(RATE * 20) * (math.expm1(RATE * 101) + math.expm1(RATE * 51))
    assert expected_seconds(training, RATE, 100.0) == pytest.approx(by_hand / RATE)


def test_an_interval_that_divides_the_work_leaves_no_rest() -> None:
    training = Training(startup_seconds=0.0, work_seconds=0.3, checkpoint_seconds=1.0)
    assert expected_seconds(training, 0.0, 0.1) == pytest.approx(3.3)
    assert expected_seconds(training, 0.0, 5.0) == pytest.approx(1.3)


def test_without_interruptions_only_checkpoints_cost_time() -> None:
    training = Training(startup_seconds=30.0, work_seconds=100.0, checkpoint_seconds=2.0)
    assert expected_seconds(training, 0.0, 25.0) == 138.0
    assert expected_seconds(training, 0.0) == 130.0
    assert expected_seconds(training, 1e-12, 25.0) == pytest.approx(138.0)


def test_daly_by_hand() -> None:
    """C / 2 M = 0.01: 2,000 (1 + 0.1 / 3 + 0.01 / 9) - 200 = 1,868.89."""
    assert daly_interval(200.0, 10_000.0) == pytest.approx(1_868.8889, abs=1e-4)


def test_a_checkpoint_as_long_as_two_interruptions_is_written_once_in_between() -> None:
    assert daly_interval(200.0, 100.0) == 100.0
    assert daly_interval(500.0, 100.0) == 100.0


@pytest.mark.parametrize(("checkpoint", "between"), [(2.0, 600.0), (20.0, 3_600.0), (60.0, 1_200.0)])
def test_no_interval_is_better_than_dalys_by_more_than_a_thousandth(checkpoint: float, between: float) -> None:
    best = daly_interval(checkpoint, between)
    training = Training(startup_seconds=100.0, work_seconds=400 * best, checkpoint_seconds=checkpoint)
    cost = expected_seconds(training, 1 / between, best)
    others = [expected_seconds(training, 1 / between, 400 * best / parts) for parts in range(100, 1_600, 20)]
    assert cost <= min(others) * 1.001
    assert cost < expected_seconds(training, 1 / between, best / 2)
    assert cost < expected_seconds(training, 1 / between, best * 2)


def test_the_default_rate_by_hand() -> None:
    """80 of 100 instances survive a month of 730 h: -ln(0.8) / 730 = 0.00030567 interruptions an hour."""
    assert pytest.approx(-math.log(0.8) / 730, abs=1e-5) == DEFAULT_PER_HOUR


@pytest.mark.parametrize(
    ("training", "interval"),
    [
        (Training(startup_seconds=8.0, work_seconds=45.0, checkpoint_seconds=0.5), 5.0),
        (Training(startup_seconds=3.0, work_seconds=50.0, checkpoint_seconds=2.0), 12.0),
        (Training(startup_seconds=5.0, work_seconds=20.0), math.inf),
    ],
)
def test_simulated_trainings_take_as_long_on_average(training: Training, interval: float) -> None:
    """The mean of 20,000 simulated trainings has a standard error below 0.6 %; four of them are allowed."""
    draws, rate = random.Random(20261201), 1 / 30
    seconds = [simulated_seconds(training, rate, interval, draws) for _ in range(20_000)]
    mean = math.fsum(seconds) / len(seconds)
    error = math.sqrt(math.fsum((each - mean) ** 2 for each in seconds)) / len(seconds)
    assert error < 0.006 * mean
    assert abs(mean - expected_seconds(training, rate, interval)) < 4 * error
