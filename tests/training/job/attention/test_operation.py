"""Models find blockwise attention in transformers' registry, compile it, and evaluate as with `eager`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoConfig

from attention import operation
from weights.pretrained import set_attention

MODULE = SimpleNamespace(is_causal=False)
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
MODELS = {
    "albert": {**SMALL, **NO_DROPOUT, "embedding_size": 8},
    "bert": {**SMALL, **NO_DROPOUT},
    "camembert": {**SMALL, **NO_DROPOUT},
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 32, "dropout": 0.0, "attention_dropout": 0.0},
    "electra": {**SMALL, **NO_DROPOUT, "embedding_size": 8},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 4, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0},
    # Two heads share the keys and values of one.
    "llama": {**SMALL, "num_key_value_heads": 2},
    "mistral": {**SMALL, "num_key_value_heads": 2, "sliding_window": 4},
    "qwen2": {**SMALL, "num_key_value_heads": 2},
    "qwen3": {**SMALL, "num_key_value_heads": 2, "head_dim": 4},
    "roberta": {**SMALL, **NO_DROPOUT},
    "xlm-roberta": {**SMALL, **NO_DROPOUT},
}


def new_model(model_type: str) -> Any:
    torch.manual_seed(1)
    ids = {"vocab_size": 40, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    config = AutoConfig.for_model(model_type, **MODELS[model_type], **ids)
    return transformers.AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")


def batch() -> dict[str, Any]:
    torch.manual_seed(2)
    ids = torch.randint(3, 40, (3, 9))
    ids[0, 4:] = ids[1, 7:] = 1
    return {"input_ids": ids, "attention_mask": (ids != 1).long(), "labels": torch.tensor([0, 1, 1])}


@pytest.mark.parametrize("model_type", operation.MODEL_TYPES)
def test_models_train_as_with_eager_attention(model_type: str) -> None:
    model = new_model(model_type).train()
    gradients = []
    for attention in ("eager", operation.NAME):
        operation.register()
        assert set_attention(model, attention)
        model.zero_grad()
        model(**batch()).loss.backward()
        gradients.append({name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, expected in gradients[0].items():
        assert torch.allclose(gradients[1][name], expected, rtol=1e-3, atol=1e-6), name


@pytest.mark.parametrize("model_type", operation.MODEL_TYPES)
@pytest.mark.parametrize("is_bf16", [False, True])
def test_evaluations_equal_those_with_eager_attention_to_the_bit(model_type: str, is_bf16: bool) -> None:
    operation.register()
    model = new_model(model_type).eval()
    logits = []
    for attention in ("eager", operation.NAME):
        assert set_attention(model, attention)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
            logits.append(model(**batch()).logits)
    assert torch.equal(*logits)


@pytest.mark.parametrize("name", operation.UNSUPPORTED)
def test_arguments_that_change_the_scores_are_refused(name: str) -> None:
    tensors = [torch.randn(1, 2, 3, 4) for _ in range(3)]
    with pytest.raises(ValueError, match=f"attention blockwise does not support {name}"):
        operation.attend(MODULE, *tensors, None, **{name: 1.0})


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("is_dropping", [False, True])
def test_a_compiler_knows_the_shapes_and_the_derivative(is_causal: bool, is_dropping: bool) -> None:
    operation.register(compiles=True)
    tensors = [torch.randn(2, 2, 300, 4, requires_grad=True) for _ in range(3)]
    arguments = (*tensors, None, 0.5, 6554 if is_dropping else 0, is_causal)
    checks = ["test_schema", "test_faketensor"]
    # The others compare two calls, whose draws differ.
    checks += [] if is_dropping else ["test_autograd_registration", "test_aot_dispatch_dynamic"]
    torch.library.opcheck(torch.ops.trainfare.blockwise_attention, arguments, test_utils=checks)


def test_compiled_attention_gives_the_gradients_of_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    operation.register(compiles=True)

    def loss(*tensors: Any) -> Any:
        return operation.attend(MODULE, *tensors, None)[0].square().sum()

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=True)
    for length in (5, 40):
        gradients = []
        for function in (loss, compiled):
            torch.manual_seed(1)
            tensors = [torch.randn(2, 2, length, 4, requires_grad=True) for _ in range(3)]
            function(*tensors).backward()
            gradients.append(torch.stack([each.grad for each in tensors if each.grad is not None]))
        assert torch.allclose(*gradients)
