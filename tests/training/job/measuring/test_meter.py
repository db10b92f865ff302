"""Every number from the meter, worked out by hand with a manual clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import transformers

from training.job.data.padding import Work
from training.job.measuring import meter
from training.job.measuring.meter import Meter, Steady


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
    # Step times can be read during the training.
    assert training.meter.step_seconds() == [1.0]
    for _ in range(2):
        training.clock.time += 0.5  # the loader
        training.step(1.5, samples=4, batches=2)
    training.meter.end_steps()
    steady = training.meter.steady()
    assert steady is not None
    assert steady.work.samples == 16
    assert steady.seconds == pytest.approx(4.0)
    assert steady.step_seconds == pytest.approx((2.0, 2.0, 2.0))
    # The end counts once.
    training.clock.time += 50
    training.meter.end_steps()
    assert training.meter.phase_seconds == {"warmup": 1.0, "train_steady": 4.0}


@pytest.mark.parametrize("steps", [0, 1, 3, 4])
def test_fewer_than_two_steady_steps_have_no_throughput(steps: int) -> None:
    training = Training(warmup_steps=3)
    training.meter.begin_steps()
    for _ in range(steps):
        training.step(1.0, samples=2)
    training.meter.end_steps()
    assert training.meter.steady() is None
    assert training.meter.phase_seconds == {"warmup": min(steps, 3)} | (
        {"train_steady": steps - 3} if steps >= 3 else {}
    )


def test_throughput_by_hand() -> None:
    steady = Steady(10.0, Work(50, 400, 800), 5, (1.0, 2.0, 3.0))
    all_devices = Work(100, 800, 1600, 6400)
    # 6 FLOP x 1e9 parameters x 80 tokens/s = 4.8e11 of 4.8e12.
    assert meter.throughput_metrics(steady, all_devices, 10**9, 4.8e12) == pytest.approx(
        {
            "throughput/steady_samples_per_second": 10.0,
            "throughput/steady_tokens_per_second": 80.0,
            "throughput/steady_steps": 5,
            "throughput/steady_step_seconds_p25": 1.0,
            "throughput/steady_step_seconds_p50": 2.0,
            "throughput/steady_step_seconds_p75": 3.0,
            "throughput/model_flops_per_second": 4.8e11,
            "throughput/mfu": 0.1,
        }
    )
    # 6,400 pairs of 10**7 FLOP in 10 s are 6.4e9 FLOP/s more.
    metrics = meter.throughput_metrics(steady, all_devices, 10**9, 4.8e12, 10**7)
    assert metrics["throughput/model_flops_with_attention_per_second"] == pytest.approx(4.8e11 + 6.4e9)
    assert metrics["throughput/mfu_with_attention"] == pytest.approx(0.1 + 6.4e9 / 4.8e12)
    assert "throughput/mfu" not in meter.throughput_metrics(steady, all_devices, 10**9, None)
    assert meter.throughput_metrics(None, all_devices, 10**9, 1e12) == {}


def test_padding_efficiency_by_hand() -> None:
    assert meter.padding_metrics(Work(10, 30, 120)) == {"padding/efficiency": 0.25}
    assert meter.padding_metrics(Work(0, 0, 0)) == {}


def test_shared_layers_count_as_often_as_they_run() -> None:
    from transformers import AlbertConfig, AlbertForSequenceClassification

    sizes = {"vocab_size": 20, "embedding_size": 4, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
    one_layer, three_layers = (
        meter.multiplied_parameters(AlbertForSequenceClassification(AlbertConfig(num_hidden_layers=n, **sizes)))
        for n in (1, 3)
    )
    # 4 x (8 x 8 + 8) of attention, 8 x 16 + 16 and 16 x 8 + 8 of the feed-forward part, two norms of 2 x 8.
    assert three_layers - one_layer == 2 * (4 * 72 + 144 + 136 + 32)


def test_attention_counts_two_products_of_every_layer() -> None:
    """BERT base: 12 layers of 768 hidden units."""
    config = transformers.BertConfig()
    assert meter.attention_flops_per_pair(SimpleNamespace(config=config)) == 12 * 12 * 768
    distilled = transformers.DistilBertConfig(n_layers=6, dim=768)
    assert meter.attention_flops_per_pair(SimpleNamespace(config=distilled)) == 12 * 6 * 768
    assert meter.attention_flops_per_pair(SimpleNamespace(config=SimpleNamespace())) is None
