"""Layers that compute in 8 bits, and their evaluation in 16 bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import nn

from training.job.loop.prepared_model import convert_to_float8, in_16_bits, linears_to_convert
from training.job.measuring import hardware
from training.job.processes.reporting import Unsupported

SMALL = {"num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 96}
BERT = transformers.BertConfig(hidden_size=32, intermediate_size=64, num_labels=16, **SMALL)


def bert(**changes: Any) -> Any:
    config = transformers.BertConfig(**{**BERT.to_dict(), **changes})
    return transformers.BertForSequenceClassification(config)


def test_all_repeated_layers_and_neither_poolers_nor_heads_are_converted() -> None:
    names = linears_to_convert(bert())
    assert len(names) == 2 * 6
    assert all(name.startswith("bert.encoder.layer.") for name in names)
    # Layers whose sizes are not multiples of 16 are left out.
    names = linears_to_convert(bert(intermediate_size=72))
    assert (len(names), any("intermediate" in name for name in names)) == (2 * 4, False)
    # Shared layers are converted once.
    config = transformers.AlbertConfig(hidden_size=32, intermediate_size=64, embedding_size=16, **SMALL)
    assert len(linears_to_convert(transformers.AlbertForSequenceClassification(config))) == 6
    llama = transformers.LlamaConfig(hidden_size=32, intermediate_size=64, num_key_value_heads=1, **SMALL)
    names = linears_to_convert(transformers.LlamaForCausalLM(llama))
    assert (len(names), "lm_head" in names) == (2 * 7, False)
    layer = nn.ModuleDict({"gate": nn.Linear(32, 16), "experts": nn.ModuleList([nn.Linear(32, 32)])})
    layer["gate_proj"] = nn.Linear(32, 32)
    assert linears_to_convert(nn.ModuleDict({"layers": nn.ModuleList([layer])})) == ["layers.0.gate_proj"]


def test_a_model_without_such_layers_is_refused() -> None:
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=96))
    with pytest.raises(Unsupported) as error:
        convert_to_float8(gpt2)
    assert str(error.value) == (
        "precision fp8 cannot speed up model type 'gpt2': its repeated layers have no torch.nn.Linear whose dimensions "
        "are multiples of 16; use precision bf16"
    )


def test_fp8_needs_a_gpu_with_8_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        Unsupported, match=r"^precision fp8 needs an NVIDIA GPU, but this job runs on cpu: use .* bf16$"
    ):
        hardware.precision("fp8", "cpu")
    # PyTorch reports a GPU: this machine may have none.
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA A100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    message = r"needs a GPU of compute capability 8\.9 or higher \(Ada, Hopper, Blackwell\), but NVIDIA A100 has 8\.0"
    with pytest.raises(Unsupported, match=message):
        hardware.precision("fp8", "cuda")
    assert hardware.precision("auto", "cuda") == "bf16"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert hardware.precision("fp8", "cuda") == "fp8"


class Float8Linear(nn.Linear):
    """A layer with the name of torchao's, whose result shows that it was used."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return super().forward(values) + 100


def test_layers_are_plain_within_an_evaluation_only() -> None:
    plain = nn.Linear(16, 16)
    model = nn.Sequential(Float8Linear(16, 16))
    model[0].load_state_dict(plain.state_dict())
    values = torch.ones(1, 16)
    with in_16_bits(model):
        assert torch.equal(model(values), plain(values))
    assert torch.equal(model(values), plain(values) + 100)
    with pytest.raises(RuntimeError), in_16_bits(model):
        raise RuntimeError
    assert torch.equal(model(values), plain(values) + 100)
