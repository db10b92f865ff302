"""Every number from the meter, worked out by hand with a manual clock."""

from __future__ import annotations

from typing import Any

import pytest

from data.padding import Work
from measuring.meter import Meter


class ManualClock:
    """Clock that stands still until a test advances it."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def mark(self) -> Any:
        return self.time

    def seconds_between(self, start: Any, end: Any) -> float:
        return float(end - start)


class Training:
    def __init__(self, warmup_steps: int) -> None:
        self.clock = ManualClock()
        self.phases: list[tuple[str, float]] = []
        self.meter = Meter(self.clock, warmup_steps, lambda *phase: self.phases.append(phase))

    def step(self, seconds: float, samples: int, tokens: int = 0, batches: int = 1) -> None:
        for _ in range(batches):
            self.meter.add_work(Work(samples, tokens, samples * 10))
        self.clock.time += seconds
        self.meter.end_step()

    def pause(self, phase: str, seconds: float) -> None:
        with self.meter.phase(phase):
            self.clock.time += seconds


def test_steady_throughput_by_hand() -> None:
    training = Training(warmup_steps=1)
    training.meter.begin_steps()
    for _ in range(6):
        training.step(1.0, samples=2, tokens=20)
    training.meter.end_steps()
    steady = training.meter.steady()
    assert steady is not None
    assert steady.seconds == pytest.approx(5.0)
    assert steady.work == Work(10, 100, 100)
    assert steady.work.samples / steady.seconds == pytest.approx(2.0)
    assert steady.steps == 5
    assert steady.step_seconds == pytest.approx((1.0, 1.0, 1.0))


def test_steady_time_excludes_warm_up_evaluations_and_checkpoints() -> None:
    training = Training(warmup_steps=2)
    training.meter.begin_steps()
    training.step(30.0, samples=8)
    training.pause("eval", 7.0)
    training.step(20.0, samples=8)
    training.step(1.0, samples=8)
    training.pause("eval", 5.0)
    training.step(2.0, samples=8)
    training.pause("checkpoint", 11.0)
    training.step(3.0, samples=8)
    training.step(4.0, samples=4)
    training.meter.end_steps()
    training.pause("eval", 9.0)
    steady = training.meter.steady()
    assert steady is not None
    # 1 + 2 + 3 + 4 seconds; 8 + 8 + 8 + 4 samples; quartiles of 1, 2, 3, 4 by linear interpolation.
    assert steady.seconds == pytest.approx(10.0)
    assert steady.work.samples == 28
    assert steady.steps == 4
    assert steady.step_seconds == pytest.approx((1.75, 2.5, 3.25))
    assert training.meter.phase_seconds == pytest.approx(
        {"eval": 21.0, "checkpoint": 11.0, "warmup": 50.0, "train_steady": 10.0}
    )
    assert training.phases == [
        ("eval", 7.0), ("eval", 5.0), ("checkpoint", 11.0), ("warmup", 50.0), ("train_steady", 10.0), ("eval", 9.0),
    ]  # fmt: skip


def test_waiting_for_data_counts_and_accumulated_batches_are_one_step() -> None:
    training = Training(warmup_steps=1)
    training.meter.begin_steps()
    training.step(1.0, samples=4, batches=2)
    for _ in range(2):
        training.clock.time += 0.5  # the loader
        training.step(1.5, samples=4, batches=2)
    training.meter.end_steps()
    steady = training.meter.steady()
    assert steady is not None
    assert steady.work.samples == 16
    assert steady.seconds == pytest.approx(4.0)
    assert steady.step_seconds == pytest.approx((2.0, 2.0, 2.0))


@pytest.mark.parametrize("steps", [0, 1, 3, 4])
def test_fewer_than_two_steady_steps_have_no_throughput(steps: int) -> None:
    training = Training(warmup_steps=3)
    training.meter.begin_steps()
    for _ in range(steps):
        training.step(1.0, samples=2)
    training.meter.end_steps()
    assert training.meter.steady() is None


def test_a_training_that_ends_while_warming_up_has_no_steady_phase() -> None:
    training = Training(warmup_steps=3)
    training.meter.begin_steps()
    training.step(2.0, samples=2)
    training.meter.end_steps()
    assert training.meter.phase_seconds == {"warmup": 2.0}


def test_the_last_step_counts_once() -> None:
    training = Training(warmup_steps=1)
    training.meter.begin_steps()
    for _ in range(3):
        training.step(1.0, samples=2)
    training.meter.end_steps()
    training.clock.time += 50
    training.meter.end_steps()
    assert training.meter.phase_seconds == {"warmup": 1.0, "train_steady": 2.0}


def test_step_times_can_be_read_during_the_training() -> None:
    training = Training(warmup_steps=1)
    training.meter.begin_steps()
    training.step(1.0, samples=2)
    assert training.meter.step_seconds() == [1.0]
    training.step(2.0, samples=2)
    training.step(3.0, samples=2)
    assert training.meter.step_seconds() == [1.0, 2.0, 3.0]
    training.meter.end_steps()
    steady = training.meter.steady()
    assert steady is not None
    assert steady.steps == 2
