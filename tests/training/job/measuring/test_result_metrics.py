"""Metrics of a finished training, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import transformers

from data.padding import Work
from measuring import result_metrics
from measuring.meter import Steady


def test_throughput_by_hand() -> None:
    steady = Steady(10.0, Work(50, 400, 800), 5, (1.0, 2.0, 3.0))
    all_devices = Work(100, 800, 1600, 6400)
    # 6 FLOP x 1e9 parameters x 80 tokens/s = 4.8e11 of 4.8e12.
    assert result_metrics.throughput_metrics(steady, all_devices, 10**9, 4.8e12) == pytest.approx(
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
    metrics = result_metrics.throughput_metrics(steady, all_devices, 10**9, 4.8e12, 10**7)
    assert metrics["throughput/model_flops_with_attention_per_second"] == pytest.approx(4.8e11 + 6.4e9)
    assert metrics["throughput/mfu_with_attention"] == pytest.approx(0.1 + 6.4e9 / 4.8e12)
    assert "throughput/mfu" not in result_metrics.throughput_metrics(steady, all_devices, 10**9, None)
    assert result_metrics.throughput_metrics(None, all_devices, 10**9, 1e12) == {}


def test_padding_efficiency_by_hand() -> None:
    assert result_metrics.padding_metrics(Work(10, 30, 120)) == {"padding/efficiency": 0.25}
    assert result_metrics.padding_metrics(Work(0, 0, 0)) == {}


def test_shared_layers_count_as_often_as_they_run() -> None:
    from transformers import AlbertConfig, AlbertForSequenceClassification

    sizes = {"vocab_size": 20, "embedding_size": 4, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
    one_layer, three_layers = (
        result_metrics.multiplied_parameters(
            AlbertForSequenceClassification(AlbertConfig(num_hidden_layers=n, **sizes))
        )
        for n in (1, 3)
    )
    # 4 x (8 x 8 + 8) of attention, 8 x 16 + 16 and 16 x 8 + 8 of the feed-forward part, two norms of 2 x 8.
    assert three_layers - one_layer == 2 * (4 * 72 + 144 + 136 + 32)


def test_attention_counts_two_products_of_every_layer() -> None:
    """BERT base: 12 layers of 768 hidden units."""
    config = transformers.BertConfig()
    assert result_metrics.attention_flops_per_pair(SimpleNamespace(config=config)) == 12 * 12 * 768
    distilled = transformers.DistilBertConfig(n_layers=6, dim=768)
    assert result_metrics.attention_flops_per_pair(SimpleNamespace(config=distilled)) == 12 * 6 * 768
    assert result_metrics.attention_flops_per_pair(SimpleNamespace(config=SimpleNamespace())) is None
