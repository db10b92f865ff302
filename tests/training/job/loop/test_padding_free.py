"""Padding-free batches give the loss and the gradients of padded ones."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoConfig

from training.job.loop import padding_free
from training.job.loop.padding_free import PackedRows, check_device, flash_attention, install
from training.job.processes.reporting import Unsupported
from training.job.tasks.question_answering import exclude_padding

TYPES = ("albert", "bert", "distilbert", "gpt2", "roberta")
LENGTHS = ([3, 7, 5, 1], [4, 4, 4], [6], [2, 2, 9, 2])
VOCABULARY, PAD = 40, 1
BERT = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
SIZES = {
    "albert": {**BERT, "num_hidden_layers": 3, "embedding_size": 8, "classifier_dropout_prob": 0.0},
    "distilbert": {
        "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32,
        "dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0, "qa_dropout": 0.0,
    },
    "gpt2": {
        "n_embd": 16, "n_layer": 2, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0,
        "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
    },
}  # fmt: skip


def new_model(model_type: str, head: str = "SequenceClassification", **options: Any) -> Any:
    sizes = {**SIZES.get(model_type, BERT), "vocab_size": VOCABULARY, "pad_token_id": PAD, **options}
    torch.manual_seed(1)
    config = AutoConfig.for_model(model_type, num_labels=3 if head == "SequenceClassification" else 2, **sizes)
    model = getattr(transformers, f"AutoModelFor{head}").from_config(config)
    with torch.no_grad():
        # New biases are zero, which would hide that a value is added to padding.
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.train()


def batch_of(lengths: list[int], side: str = "right") -> dict[str, Any]:
    random = torch.Generator().manual_seed(2)
    ids = torch.full((len(lengths), max(lengths) + 1), PAD)
    for row, length in zip(ids, lengths, strict=True):
        row[slice(length) if side == "right" else slice(-length, None)] = torch.randint(
            2, VOCABULARY, (length,), generator=random
        )
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


def loss_and_gradients(model: Any, batch: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    loss = model(**batch).loss
    loss.backward()
    gradients = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    return loss.detach(), gradients


def assert_equal(model: Any, batch: dict[str, Any]) -> None:
    packed = deepcopy(model)
    install(packed)
    loss, gradients = loss_and_gradients(model, batch)
    own_loss, own_gradients = loss_and_gradients(packed, batch)
    torch.testing.assert_close(own_loss, loss, atol=1e-6, rtol=1e-5)
    assert list(own_gradients) == list(gradients)
    for name, gradient in gradients.items():
        torch.testing.assert_close(own_gradients[name], gradient, atol=2e-6, rtol=1e-4, msg=name)


@pytest.mark.parametrize("model_type", padding_free.MODEL_TYPES)
def test_a_classifier_has_the_same_loss_and_gradients(model_type: str) -> None:
    for lengths in LENGTHS:
        assert_equal(new_model(model_type), {**batch_of(lengths), "labels": torch.arange(len(lengths)) % 3})


@pytest.mark.parametrize(("model_type", "side"), [("bert", "right"), ("gpt2", "right"), ("gpt2", "left")])
def test_a_causal_language_model_has_the_same_loss_and_gradients(model_type: str, side: str) -> None:
    lengths = [3, 7, 5]
    batch = batch_of(lengths, side)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    if side == "left":
        # The padding in front of a row would predict its first token.
        labels[torch.arange(3), -torch.tensor(lengths)] = -100
    options = {"is_decoder": True} if model_type != "gpt2" else {}
    assert_equal(new_model(model_type, "CausalLM", **options), {**batch, "labels": labels})


@pytest.mark.parametrize("model_type", TYPES)
def test_padding_has_no_share_in_the_loss_of_question_answering(model_type: str) -> None:
    model, lengths = new_model(model_type, "QuestionAnswering"), [3, 7, 5]
    exclude_padding(model)
    packed = deepcopy(model)
    install(packed)
    starts, ends = torch.tensor([1, 2, 0]), torch.tensor([2, 6, 4])
    batch = {**batch_of(lengths), "start_positions": starts, "end_positions": ends}
    one_by_one = [
        model(
            **{name: each[at : at + 1, :length] if each.ndim > 1 else each[at : at + 1] for name, each in batch.items()}
        )
        for at, length in enumerate(lengths)
    ]
    expected = torch.stack([each.loss for each in one_by_one]).mean()
    for each in (model, packed):
        torch.testing.assert_close(each(**batch).loss, expected, atol=1e-6, rtol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert packed(**batch).loss.isfinite()


def test_layers_compute_only_tokens() -> None:
    model = new_model("bert")
    install(model)
    shapes: list[Any] = []
    layer = model.bert.encoder.layer[0]
    layer.intermediate.register_forward_hook(lambda module, args, output: shapes.append(tuple(output.shape)))
    model(**batch_of([3, 7, 5, 1]), packed_tokens=16)
    assert shapes == [(1, 16, 32)]


def test_dropout_of_attention_is_applied() -> None:
    model = new_model("bert", attention_probs_dropout_prob=0.5)
    install(model)
    batch = batch_of([3, 7])
    assert not torch.equal(model(**batch).logits, model(**batch).logits)
    model.eval()
    assert torch.equal(model(**batch).logits, model(**batch).logits)


def test_other_models_and_gpus_with_32_bits_are_refused() -> None:
    config = AutoConfig.for_model(
        "deberta-v2", vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    with pytest.raises(Unsupported, match=r"^padding none does not support models of type deberta-v2, only albert, "):
        install(model)
    check_device("cpu", "fp32")
    with pytest.raises(Unsupported, match=r"^padding none needs precision bf16, fp16 or auto on a GPU, not fp32: "):
        check_device("cuda", "fp32")


@pytest.mark.parametrize("width", [8, 13])
def test_the_kernel_of_gpus_gets_arguments_that_it_accepts(width: int) -> None:
    """Only shapes are computed here, since the kernel needs a GPU."""
    rows = PackedRows(batch_of([3, 7])["attention_mask"])
    query = torch.empty(1, 2, 10, width, dtype=torch.bfloat16, device="meta")
    rows.cumulative = rows.cumulative.to("meta")
    assert flash_attention(query, query, query, rows, 0.1, False, 0.25).shape == (1, 10, 2, width)


NewJob = Callable[[str], Any]


def test_a_job_has_the_losses_and_the_scores_of_a_padded_one(new_job: NewJob) -> None:
    # In the order of the rows' numbers, batches have rows of different lengths.
    arguments = {"max_steps": 12, "learning_rate": 0.01, "length_grouping": False}
    padded = new_job("padded").without_dropout().run(padding="longest", **arguments)
    packed = new_job("packed").without_dropout().run(padding="none", **arguments)
    assert packed.losses == pytest.approx(padded.losses, rel=1e-4)
    metrics, own = padded.result["metrics"], packed.result["metrics"]
    assert own["eval_loss"] == pytest.approx(metrics["eval_loss"], rel=1e-4)
    assert own["eval_f1_macro"] == metrics["eval_f1_macro"]
    assert (own["padding/efficiency"], metrics["padding/efficiency"] < 0.9) == (1.0, True)
    used = packed.events("start")[0]["hyperparameters"]
    assert (used["padding"], used["attention"]) == ("none", "auto")
    configurations = [(each.folder / "model/config.json").read_text("utf-8") for each in (padded, packed)]
    assert configurations[0] == configurations[1]
