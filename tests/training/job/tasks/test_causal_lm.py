"""Causal language modelling: metrics agree with plain torch, and padding has no labels."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForSequenceClassification, GPT2Config, GPT2LMHeadModel

from tests.support.job.job_process import TORCHRUN
from training.job.data import IGNORED_LABEL
from training.job.data.channels import ChannelMetadata
from training.job.data.padding import Batch, Collator, Padding
from training.job.measuring import meter
from training.job.tasks import TASKS
from training.job.tasks.causal_lm import TokenLoss
from training.job.weights.pretrained import Pretrained

CAUSAL_LM = TASKS["causal-lm"]
VOCABULARY, HIDDEN, LAYERS = 50, 16, 2
PLAIN = {"task": "causal-lm", "weights": "random", "padding": "longest", "max_steps": 3}
METADATA = ChannelMetadata("causal-lm", (), 12, 1, 0, 0, "right")


def blocks(rows: int, length: int = 12) -> list[list[int]]:
    return [[(7 * at + 3 * i) % (VOCABULARY - 1) + 1 for i in range(length)] for at in range(rows)]


def varying_lengths(rows: int) -> list[list[int]]:
    return [block[: 2 + at * 5 % 11] for at, block in enumerate(blocks(rows))]


def write_rows(folder: Path, ids: Sequence[Sequence[int]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table({"input_ids": pa.array(ids, pa.list_(pa.int32()))})
    pq.write_table(table, folder / "data.parquet", store_schema=False)
    metadata = {"task": "causal-lm", "label_names": [], "max_length": 12, "rows": len(ids)}
    metadata |= {"pad_token_id": 0, "pad_token_type_id": 0, "padding_side": "right"}
    (folder / "channel.json").write_text(json.dumps(metadata))


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Configuration of a GPT-2 with two layers, without weights."""
    folder = tmp_path_factory.mktemp("gpt2")
    shape = {"vocab_size": VOCABULARY, "n_positions": 16, "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": 2}
    GPT2Config(**shape, bos_token_id=0, eos_token_id=0).save_pretrained(folder)
    return folder


@pytest.fixture
def new_lm(new_job: Callable[[str], Any], tiny_gpt2: Path) -> Callable[..., Any]:
    def make(name: str, train: list[list[int]], validation: list[list[int]]) -> Any:
        job = new_job(name)
        job.environment["SM_CHANNEL_MODEL"] = str(tiny_gpt2)
        write_rows(job.folder / "train", train)
        write_rows(job.folder / "validation", validation)
        return job

    return make


def loss_by_hand(model: Any, rows: Sequence[Sequence[int]]) -> float:
    """Return the mean negative log probability over all predicted tokens, one row at a time."""
    losses: list[float] = []
    for row in rows:
        with torch.no_grad():
            probabilities = model.eval()(torch.tensor([row])).logits[0].double().softmax(-1)
        losses += [-math.log(probabilities[at, token]) for at, token in enumerate(row[1:])]
    return sum(losses) / len(losses)


@pytest.mark.parametrize("launcher", [(), pytest.param(TORCHRUN, marks=pytest.mark.slow)])
def test_loss_and_perplexity_by_hand(new_lm: Any, launcher: Sequence[str]) -> None:
    rows = varying_lengths
    job = new_lm("job", rows(20), rows(13))
    result = job.run(launcher, **PLAIN, eval_batch_size=3, learning_rate=0.01).result
    model = GPT2LMHeadModel.from_pretrained(job.folder / "model")
    by_hand = loss_by_hand(model, rows(13))
    assert result["metrics"]["eval_loss"] == pytest.approx(by_hand, rel=1e-5)
    assert result["metrics"]["eval_perplexity"] == pytest.approx(math.exp(by_hand), rel=1e-5)
    assert result["tables"] == {}
    # 3 steps take 8, 8 and 4 rows: all 20, which have 2 + at * 5 % 11 tokens.
    assert launcher or result["metrics"]["tokens"] == sum(map(len, rows(20)))
    assert model.config.use_cache is True


@pytest.mark.slow
def test_drop_last_drops_the_incomplete_batch(new_lm: Any) -> None:
    arguments = {**PLAIN, "max_steps": None, "epochs": 2, "save_model": False, "drop_last": True}
    ended = new_lm("dropped", blocks(20), blocks(5)).run(**arguments)
    # 20 rows make 2 complete batches of 8.
    assert ended.result["steps"] == 4
    assert ended.events("metric")[-1]["samples"] == 32


def test_padding_has_no_label() -> None:
    rows = [{"input_ids": np.array([5, 6, 7])}, {"input_ids": np.array([8, 9])}]
    batch = Collator(Padding("max_length", 4), METADATA, CAUSAL_LM.targets, batch_size=3)(rows)
    assert batch["labels"].tolist() == [
        [IGNORED_LABEL, 6, 7, IGNORED_LABEL],
        [IGNORED_LABEL, 9, IGNORED_LABEL, IGNORED_LABEL],
    ]
    # The padding token has a label where it is not padding.
    ids, mask = np.array([[4, 0, 0]]), np.array([[1, 1, 0]])
    assert CAUSAL_LM.targets(Batch([{}], [0], ids, mask))["labels"].tolist() == [[IGNORED_LABEL, 0, IGNORED_LABEL]]


def test_reduced_predictions_by_hand() -> None:
    # Two tokens, the first of which is three times as likely as the second: their losses are ln 4/3 and ln 4.
    logits = torch.tensor([[[math.log(3), 0.0]] * 3] * 2)
    labels = torch.tensor([[0, 0, 1], [1, 1, IGNORED_LABEL]])
    reduced = CAUSAL_LM.reduce_predictions(logits, labels)
    assert reduced.tolist() == [pytest.approx([math.log(4 / 3) + math.log(4), 2]), pytest.approx([math.log(4), 1])]
    scorer: Any = TokenLoss(np.array([1, 0]))
    scores = scorer(SimpleNamespace(predictions=reduced.numpy()))
    assert scorer.rows() == [
        {"loss": pytest.approx(math.log(4)), "tokens": 1},
        {"loss": pytest.approx(math.log(16 / 3)), "tokens": 2},
    ]
    loss = (math.log(4 / 3) + 2 * math.log(4)) / 3
    assert scores == pytest.approx({"loss": loss, "perplexity": math.exp(loss)})
    # An infinite perplexity is omitted.
    for loss in (1e6, math.inf, math.nan):
        assert list(scorer(SimpleNamespace(predictions=np.array([[loss, 1]])))) == ["loss"]


def test_an_encoder_does_not_see_later_tokens(tiny_model: Path) -> None:
    model = CAUSAL_LM.load_model(Pretrained(str(tiny_model), weights="random"), METADATA).eval()
    outputs = [model(torch.tensor([[3, 4, 5, last]])).logits for last in (6, 7)]
    assert torch.equal(outputs[0][:, :3], outputs[1][:, :3])
    assert not torch.equal(outputs[0][:, 3], outputs[1][:, 3])


def test_multiplied_parameters_by_hand(tiny_gpt2: Path, tiny_model: Path) -> None:
    h = HIDDEN
    layer = 2 * 2 * h + (3 * h * h + 3 * h) + (h * h + h) + (4 * h * h + 4 * h) + (4 * h * h + h)
    model = CAUSAL_LM.load_model(Pretrained(str(tiny_gpt2), weights="random"), METADATA)
    assert meter.multiplied_parameters(model) == LAYERS * layer + 2 * h + VOCABULARY * h
    # The embeddings of words, 16 positions and 2 types are only looked up. No weights are shared.
    encoder = AutoModelForSequenceClassification.from_pretrained(tiny_model)
    assert meter.multiplied_parameters(encoder) == encoder.num_parameters() - (VOCABULARY + 16 + 2) * h
