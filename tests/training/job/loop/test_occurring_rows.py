"""Training only the rows of the word embeddings whose tokens occur gives the same weights."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForSequenceClassification

from loop.occurring_rows import OccurringRows, follow_decay, occurring_rows, parameter_count
from tests.support.job.job_process import example_rows

VOCABULARY, STEPS = 60, 30
OCCURRING = np.arange(VOCABULARY) % 3 == 0
NAME = "bert.embeddings.word_embeddings.weight"


def plain_model() -> Any:
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=0,
    )
    torch.manual_seed(1)
    return BertForSequenceClassification(config)


def with_occurring_rows(model: Any) -> Any:
    own = deepcopy(model)
    own.set_input_embeddings(OccurringRows(own.get_input_embeddings(), OCCURRING))
    return own


def train(model: Any, weight_decay: float, steps: int = STEPS) -> None:
    # The key bias has no gradient but rounding errors, which a small epsilon would blow up to whole steps.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3, weight_decay=weight_decay, fused=True)
    follow_decay(model, optimizer)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, steps)
    # As accelerate does: it replaces the parameter groups.
    optimizer.load_state_dict(optimizer.state_dict())
    random = torch.Generator().manual_seed(2)
    model.train()
    for _ in range(steps):
        tokens = torch.randint(0, VOCABULARY // 3, (4, 7), generator=random) * 3
        labels = torch.randint(0, 2, (4,), generator=random)
        model(input_ids=tokens, attention_mask=(tokens > 0).long(), labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_the_trained_weights_are_the_same(weight_decay: float) -> None:
    first = plain_model()
    plain, own = deepcopy(first), with_occurring_rows(first)
    train(plain, weight_decay)
    train(own, weight_decay)
    expected, weights = plain.state_dict(), own.state_dict()
    assert list(weights) == list(expected)
    for name, values in expected.items():
        torch.testing.assert_close(weights[name], values, atol=2e-5, rtol=1e-4)
    rows = torch.from_numpy(~OCCURRING)
    if not weight_decay:
        assert torch.equal(weights[NAME][rows], first.state_dict()[NAME][rows])
    else:
        assert weights[NAME][rows].norm() < 0.99 * first.state_dict()[NAME][rows].norm()


def test_evaluations_look_up_all_rows_as_they_are_now() -> None:
    own = with_occurring_rows(plain_model())
    tokens = torch.arange(1, 13).reshape(2, 6)
    for steps in (3, 4):
        train(own, 0.1, steps)
        plain = plain_model()
        plain.load_state_dict(own.state_dict())
        assert torch.equal(own.eval()(input_ids=tokens).logits, plain.eval()(input_ids=tokens).logits)


def test_a_token_that_does_not_occur_cannot_be_trained() -> None:
    with pytest.raises(IndexError):
        with_occurring_rows(plain_model()).train()(input_ids=torch.tensor([[1]]))


def test_loaded_weights_replace_all_rows_and_pending_decay() -> None:
    plain, own = plain_model(), with_occurring_rows(plain_model())
    train(own, 0.1, 2)
    own.load_state_dict(plain.state_dict())
    assert torch.equal(own.state_dict()[NAME], plain.state_dict()[NAME])
    embeddings = occurring_rows(own)
    assert embeddings is not None
    assert torch.equal(embeddings.weight, plain.state_dict()[NAME][torch.from_numpy(OCCURRING)])
    others = {name: values for name, values in plain.state_dict().items() if name != NAME}
    assert own.load_state_dict(others, strict=False).missing_keys == [NAME]
    assert parameter_count(own) == parameter_count(plain)


def test_a_job_decays_the_other_rows_with_the_current_learning_rate(new_job: Any, tiny_model: Path) -> None:
    """Four steps with 1, 3/4, 1/2 and 1/4 of the rate 0.1: each row shrinks by these factors of decay 0.5."""
    ended = new_job("decay").run(optimizer="auto", max_steps=4, learning_rate=0.1, weight_decay=0.5)
    assert ended.code == 0, ended.output[-3000:]
    initial, trained = (
        load_file(folder / "model.safetensors")[NAME] for folder in (tiny_model, ended.folder / "model")
    )
    ids, _ = example_rows(50)
    occurring = {0, *(token for row in ids for token in row)}
    others = [token for token in range(len(initial)) if token not in occurring]
    factor = (1 - 0.05) * (1 - 0.0375) * (1 - 0.025) * (1 - 0.0125)
    torch.testing.assert_close(trained[others], initial[others] * factor)


def test_a_job_trains_the_rows_of_its_data_and_saves_all(new_job: Any, tiny_model: Path) -> None:
    initial = load_file(tiny_model / "model.safetensors")[NAME]
    jobs = {name: new_job(name).run(optimizer=name, max_steps=4) for name in ("auto", "adamw")}
    ids, _ = example_rows(50)
    occurring = {0, *(token for row in ids for token in row)}
    assert jobs["auto"].result["metrics"]["optim/trained_embedding_rows"] == len(occurring)
    assert "optim/trained_embedding_rows" not in jobs["adamw"].result["metrics"]
    own, plain = (load_file(jobs[name].folder / "model" / "model.safetensors")[NAME] for name in ("auto", "adamw"))
    torch.testing.assert_close(own, plain, atol=1e-5, rtol=1e-4)
    others = [token for token in range(len(initial)) if token not in occurring]
    assert others
    assert torch.equal(own[others], initial[others])
    assert not torch.equal(own[sorted(occurring)], initial[sorted(occurring)])
    counts = {name: ended.events("start")[0]["model"]["parameters"] for name, ended in jobs.items()}
    assert counts["auto"] == counts["adamw"]
