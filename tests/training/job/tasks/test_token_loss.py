"""The loss of language models, next to transformers' own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from transformers.loss.loss_utils import ForCausalLMLoss

from tasks.token_loss import IGNORED, TOKENS_AT_A_TIME, causal_lm_loss, use_token_loss

VOCABULARY = 301
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 8e-3}


def batch(dtype: torch.dtype, rows: int = 3, tokens: int = 2 * TOKENS_AT_A_TIME + 3) -> tuple[Any, Any]:
    """Return logits and labels, some of which are ignored."""
    generator = torch.Generator().manual_seed(5)
    logits = (5 * torch.randn(rows, tokens, VOCABULARY, generator=generator)).to(dtype).requires_grad_()
    labels = torch.randint(VOCABULARY, (rows, tokens), generator=generator)
    labels[1, 4:] = IGNORED
    return logits, labels


@pytest.mark.parametrize("factor", [1.0, 0.25])
@pytest.mark.parametrize("count", [None, 50, torch.tensor(61)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_loss_and_gradient_are_those_of_transformers(dtype: torch.dtype, count: Any, factor: float) -> None:
    results = []
    for function in (causal_lm_loss, ForCausalLMLoss):
        logits, labels = batch(dtype)
        loss = function(logits, labels, VOCABULARY, num_items_in_batch=count)
        (loss * factor).backward()
        results.append((loss.detach(), logits.grad))
    (loss, gradient), (expected_loss, expected_gradient) = results
    assert loss.dtype == expected_loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected_loss, rtol=1e-6, atol=0)
    assert gradient.dtype == dtype
    torch.testing.assert_close(gradient, expected_gradient, rtol=TOLERANCE[dtype], atol=1e-9)


def test_labels_can_be_shifted_and_another_value_ignored() -> None:
    logits, labels = batch(torch.float32)
    shifted = torch.nn.functional.pad(labels, (0, 1), value=IGNORED)[..., 1:]
    expected = ForCausalLMLoss(logits, labels, VOCABULARY)
    torch.testing.assert_close(causal_lm_loss(logits, None, VOCABULARY, shift_labels=shifted), expected)
    others = labels.masked_fill(labels == IGNORED, -1)
    torch.testing.assert_close(causal_lm_loss(logits, others, VOCABULARY, ignore_index=-1), expected)


def test_ignored_tokens_have_no_gradient() -> None:
    logits, labels = batch(torch.float32)
    causal_lm_loss(logits, labels, VOCABULARY).backward()
    # The token before the first ignored label predicts it.
    assert not logits.grad[1, 3:].any()
    assert logits.grad[0, :-1].any(dim=1).all()
    assert not logits.grad[:, -1].any()


def test_without_any_label_the_loss_is_not_a_number_as_in_transformers() -> None:
    logits, labels = batch(torch.float32)
    nothing = torch.full_like(labels, IGNORED)
    gradients = []
    for loss_function in (causal_lm_loss, ForCausalLMLoss):
        own = logits.detach().clone().requires_grad_()
        loss = loss_function(own, nothing, VOCABULARY)
        assert loss.isnan()
        loss.backward()
        gradients.append(own.grad)
    torch.testing.assert_close(*gradients, equal_nan=True)


@pytest.mark.parametrize("label", [-1, VOCABULARY])
def test_a_label_outside_of_the_vocabulary_is_an_error(label: int) -> None:
    logits, labels = batch(torch.float32)
    labels[0, 1] = label
    with pytest.raises((IndexError, RuntimeError)):
        causal_lm_loss(logits, labels, VOCABULARY)


def small_gpt2() -> Any:
    torch.manual_seed(3)
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=2)
    return transformers.GPT2LMHeadModel(config).train(False)


def test_a_model_trains_with_it_and_evaluates_with_transformers_own() -> None:
    model, plain = small_gpt2(), small_gpt2()
    assert use_token_loss(model)
    _, labels = batch(torch.float32)
    inputs = {"input_ids": labels.clamp(min=0), "labels": labels}
    with torch.no_grad():
        assert model(**inputs).loss == plain(**inputs).loss
    losses = []
    for each in (model, plain):
        losses.append(each(**inputs).loss)
        losses[-1].backward()
    assert "_TokenLoss" in type(losses[0].grad_fn).__name__
    torch.testing.assert_close(*losses)
    for (name, weight), other in zip(model.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(weight.grad, other.grad, msg=name, rtol=1e-4, atol=1e-7)


def test_a_model_with_another_loss_keeps_it() -> None:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    model = transformers.BertForMaskedLM(config)
    before = model.loss_function
    assert not use_token_loss(model)
    assert model.loss_function is before


def test_a_model_keeps_a_loss_that_cannot_be_set() -> None:
    class Earlier(transformers.GPT2LMHeadModel):  # type: ignore[misc]
        """As in transformers 4.46 to 4.48."""

        loss_function = property(lambda self: ForCausalLMLoss)

    assert not use_token_loss(Earlier(small_gpt2().config))
