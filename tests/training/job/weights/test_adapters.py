"""Adapters on tiny random models: what trains, what is saved, and that every way to load it gives the same answers."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers

from tests.support.job.job_process import TORCHRUN
from training.job.loop.prepared_model import can_leave_out
from training.job.measuring import hardware, meter
from training.job.processes.reporting import ArgumentError, Unsupported
from training.job.settings.declared import AdapterSettings
from training.job.weights import adapters
from training.job.weights.pretrained import Pretrained, load

SIZES: dict[str, Any] = {"vocab_size": 50, "pad_token_id": 0}
WIDTHS: dict[str, Any] = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 2}
CONFIGS = {
    "bert": transformers.BertConfig(**SIZES, **WIDTHS),
    "roberta": transformers.RobertaConfig(**SIZES, **WIDTHS),
    "albert": transformers.AlbertConfig(**SIZES, **WIDTHS, embedding_size=8),
    "modernbert": transformers.ModernBertConfig(**SIZES, **WIDTHS),
    "distilbert": transformers.DistilBertConfig(**SIZES, dim=16, n_layers=2, n_heads=2, hidden_dim=32),
    "gpt2": transformers.GPT2Config(**SIZES, n_embd=16, n_layer=2, n_head=2),
    "llama": transformers.LlamaConfig(**SIZES, **WIDTHS, num_key_value_heads=2),
}
CLASSES, SPANS, TOKENS = (f"AutoModelFor{head}" for head in ("SequenceClassification", "QuestionAnswering", "CausalLM"))
HEADS = {
    ("bert", CLASSES): "classifier",
    ("roberta", CLASSES): "classifier.dense classifier.out_proj",
    ("albert", CLASSES): "classifier",
    ("modernbert", CLASSES): "classifier head.dense head.norm",
    ("distilbert", CLASSES): "classifier pre_classifier",
    ("gpt2", CLASSES): "score",
    ("llama", CLASSES): "score",
    ("bert", SPANS): "qa_outputs",
    ("distilbert", SPANS): "qa_outputs",
    ("llama", SPANS): "qa_outputs",
    ("gpt2", TOKENS): "",
    ("llama", TOKENS): "lm_head",  # the saved body has none
}
LAYERS = {"bert": 13, "roberta": 12, "albert": 8, "modernbert": 8, "distilbert": 12, "gpt2": 8, "llama": 14}
"""Linear layers of two-layer bodies: BERT's six a layer, and its pooler with a head that reads it; ALBERT's six shared
ones, its pooler and the projection of its embeddings; a fused product and an output in GPT-2 and ModernBERT."""
IDS = torch.arange(1, 19).reshape(3, 6)
TARGETS = {
    CLASSES: {"labels": torch.tensor([0, 1, 0])},
    SPANS: {"start_positions": torch.tensor([1, 2, 3]), "end_positions": torch.tensor([2, 3, 4])},
    TOKENS: {"labels": IDS},
}


def base_of(folder: Path, architecture: str) -> Path:
    transformers.set_seed(1)
    transformers.AutoModel.from_config(CONFIGS[architecture]).save_pretrained(folder / "base")
    return folder / "base"


def with_adapter(base: Path, head: str, **changed: Any) -> Any:
    model = load(getattr(transformers, head), Pretrained(str(base)))
    adapters.attach(model, replace(AdapterSettings(rank=4), **changed), keeps_head=head == TOKENS)
    return model


def answers(model: Any) -> torch.Tensor:
    with torch.no_grad():
        output = model.eval()(input_ids=IDS)
    return output.logits if "logits" in output else output.start_logits


@pytest.mark.parametrize(("architecture", "head"), HEADS)
def test_auto_trains_the_head_and_matrices_of_all_other_linear_layers(
    tmp_path: Path, architecture: str, head: str
) -> None:
    base = base_of(tmp_path, architecture)
    model = with_adapter(base, head)
    matrices = [name for name, _ in model.named_parameters() if "lora_" in name]
    assert len(matrices) == 2 * (LAYERS[architecture] - (architecture == "bert" and head == SPANS))
    with torch.no_grad():
        for name, each in model.named_parameters():
            if "lora_B" in name:  # zero at first
                each.normal_(0, 0.1)
    model(input_ids=IDS, **TARGETS[head]).loss.backward()
    trained = [name for name, each in model.named_parameters() if each.grad is not None]
    modules = {name.rpartition(".")[0] for name in trained if "lora_" not in name}
    assert sorted(modules) == HEADS[architecture, head].split()
    assert {each.dtype for each in model.parameters()} == {torch.float32}

    expected, folder = answers(model), tmp_path / "adapter"
    adapters.save(model, folder)
    adapters.describe(model, adapters.Base(str(base), None, quantized=False), folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    fresh = [getattr(transformers, head).from_pretrained(base, config=config) for _ in range(2)]
    adapters.restore(fresh[0], folder)
    assert torch.equal(answers(fresh[0]), expected)
    assert torch.equal(answers(peft.PeftModel.from_pretrained(fresh[1], str(folder))), expected)

    adapters.merge(model)
    model.save_pretrained(tmp_path / "merged")
    merged = getattr(transformers, head).from_pretrained(tmp_path / "merged")
    assert torch.allclose(answers(merged), expected, rtol=0, atol=1e-6)


def test_a_pooler_that_the_base_lacks_is_trained_and_saved(tmp_path: Path) -> None:
    transformers.BertModel(CONFIGS["bert"], add_pooling_layer=False).save_pretrained(tmp_path / "base")
    model = with_adapter(tmp_path / "base", CLASSES)
    trained = {name for name, each in model.named_parameters() if each.requires_grad and "lora_" not in name}
    assert trained == {
        f"{module}.{part}" for module in ("bert.pooler.dense", "classifier") for part in ("weight", "bias")
    }


def test_named_targets_are_checked_against_the_model(tmp_path: Path) -> None:
    base = base_of(tmp_path, "bert")
    model = with_adapter(base, CLASSES, targets=("query", "attention.output.dense"))
    assert sum("lora_A" in name for name, _ in model.named_parameters()) == 4
    with pytest.raises(ArgumentError, match=r"adapter\.targets q_proj names no .* are dense, key, query, value: use"):
        with_adapter(base, CLASSES, targets=("query", "q_proj"))
    if not torch.cuda.is_available():
        with pytest.raises(Unsupported, match="qlora needs an NVIDIA GPU"):
            load(transformers.AutoModelForSequenceClassification, Pretrained(str(base), quantized=True))


def test_another_base_is_refused(tmp_path: Path) -> None:
    model, folder = with_adapter(base_of(tmp_path, "bert"), CLASSES), tmp_path / "adapter"
    adapters.save(model, folder)
    adapters.describe(model, adapters.Base("bert", None, quantized=False), folder)
    transformers.set_seed(2)
    with pytest.raises(ValueError, match=r"not those of the training, whose digest is [0-9a-f]{16}"):
        adapters.restore(transformers.BertForSequenceClassification(CONFIGS["bert"]), folder)


def test_frozen_parameters_count_for_the_products_that_they_take_part_in(tmp_path: Path) -> None:
    """BERT of width 16: 2,224 parameters in each of two layers, 272 in the pooler, 32 in the norm of the embeddings."""
    base = base_of(tmp_path, "bert")
    frozen, head, matrices = 2 * 2224 + 272 + 32, 34, 9 * 128 + 4 * 192
    one, other = with_adapter(base, CLASSES), with_adapter(base, CLASSES, method="frozen")
    assert meter.multiplied_parameters(one) == head + matrices + frozen * 2 // 3
    assert meter.multiplied_parameters(other) == head + frozen // 3
    assert not can_leave_out(one)  # embeddings that are not trained anyway
    assert [meter.attention_flops_per_pair(model) for model in (one, other)] == [12 * 2 * 16, 4 * 2 * 16]


def test_the_installation_of_packages_ends_with_their_last_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements = tmp_path / "requirements.txt"
    assert hardware.installation_seconds(requirements) is None
    requirements.write_text("peft==0.21.2\n")
    assert hardware.installation_seconds(requirements) == 0  # it was there before
    monkeypatch.syspath_prepend(tmp_path)
    requirements.write_text("brought==1\n")
    time.sleep(0.1)
    (tmp_path / "brought.py").touch()
    seconds = hardware.installation_seconds(requirements)
    assert seconds is not None
    assert 0.05 < seconds < 60


def test_a_job_keeps_the_adapter_alone_and_counts_what_it_trains(new_job: Any) -> None:
    """BERT of width 16 with two layers: 16 x 4 + 4 x 16 for ten square layers and one more in the pooler, and 16 x 4 +
    4 x 32 for each of four others; a head of 2 x 16 + 2."""
    kept = new_job("kept").run(adapter_rank=4, adapter_save="adapter", learning_rate=1e-3)
    trained = 9 * 128 + 4 * 192 + 34
    assert kept.events("start")[0]["model"]["trainable_parameters"] == trained
    files = {path.name for path in (kept.folder / "model").iterdir()}
    assert files == {"vocab.txt", "config.json", *(f"adapter_{name}" for name in FILES)}
    base = json.loads((kept.folder / "model/adapter_base.json").read_text())
    assert base["name"] == new_job("kept").environment["SM_CHANNEL_MODEL"]
    frozen = new_job("frozen").run(adapter_method="frozen")
    assert frozen.events("start")[0]["model"]["trainable_parameters"] == 34
    assert (frozen.folder / "model/model.safetensors").is_file()
    assert "adapter_rank" not in new_job("full").run().events("start")[0]["hyperparameters"]


FILES = ("config.json", "base.json", "model.safetensors")


@pytest.mark.slow
def test_an_adapter_resumes_bit_for_bit(new_job: Any) -> None:
    values = {"adapter_rank": 4, "save_strategy": "steps", "save_steps": 3, "learning_rate": 1e-3, "max_steps": 9}
    whole = new_job("whole").with_checkpoints().run(**values)
    assert whole.result
    first, second = new_job("first").with_checkpoints(), new_job("second").with_checkpoints()
    assert first.run(**values, target_metric="eval_loss", target_value=100.0).result
    checkpoint = first.folder / "checkpoints/checkpoint-3"
    assert {"adapter_model.safetensors", "optimizer.pt"} <= {path.name for path in checkpoint.iterdir()}
    checkpoint.rename((second.folder / "checkpoints").mkdir() or second.folder / "checkpoints/checkpoint-3")
    resumed = second.run(**values)
    assert resumed.events("start")[0]["resumed_from_step"] == 3
    assert resumed.weights == whole.weights


@pytest.mark.slow
def test_compiled_layers_and_two_processes_train_the_same_adapter(new_job: Any) -> None:
    values = {"adapter_rank": 4, "adapter_dropout": 0.0, "learning_rate": 1e-3, "max_steps": 4, "batch_size": 4}
    plain = new_job("plain").without_dropout().run(**{**values, "batch_size": 8})
    compiled = new_job("compiled").without_dropout().run(compiler="inductor", **{**values, "batch_size": 8})
    assert compiled.losses == pytest.approx(plain.losses, rel=1e-4)
    assert compiled.result["metrics"]["compile/recompiles"] == 0
    two = new_job("two").without_dropout().run(TORCHRUN, drop_last=True, **values)
    assert two.losses == pytest.approx(plain.losses, rel=1e-4)
