"""Several labels and regression: losses, scores, the start of the head, rows and answers."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import transformers

from tests.support.job.arguments import job_argv
from tests.support.job.job_process import VOCABULARY, Job
from tests.support.staging.tables import MODEL, write
from training.contract.errors import InputError
from training.job.data.channels import read_channel
from training.job.loop.job_trainer import JobTrainer, trainer_arguments
from training.job.loop.prepared_model import prepare
from training.job.measuring.meter import Meter, clock_for
from training.job.processes.reporting import Events
from training.job.settings.job_settings import resolve_settings
from training.job.tasks import TASKS
from training.job.tasks.row_scores import label_scores, number_scores
from training.job.weights.checkpoints import NO_PROGRESS, CheckpointKeeper
from training.staging.sources.request import Columns, Data, StagingRequest
from training.staging.stage import stage

SEVERAL, NUMBER = "multi-label-classification", "regression"
NAMES = ("angry", "glad", "rare")
ROWS = 21


def write_rows(folder: Path, task: str, lengths: Sequence[int]) -> None:
    """Write a channel. A row's labels follow from its length in tokens: of three labels, a few rows have none."""
    ids = [[(at * 7 + i) % 30 + 15 for i in range(length)] for at, length in enumerate(lengths)]
    labels: Any = pa.array([[0] * (n % 2) + [1] * (n > 6) for n in lengths], pa.list_(pa.int32()))
    own = {"labels": labels} if task == SEVERAL else {"label": pa.array([n / 4 for n in lengths], pa.float64())}
    folder.mkdir(parents=True, exist_ok=True)
    columns = {"input_ids": pa.array(ids, pa.list_(pa.int32())), **own}
    pq.write_table(pa.table(columns), folder / "data.parquet", store_schema=False)
    names = NAMES if task == SEVERAL else ()
    metadata = {"task": task, "label_names": names, "max_length": 12, "rows": len(ids), "pad_token_id": 0}
    options = {"pad_token_type_id": 0, "padding_side": "right", "start_at_mean": True, "threshold": 0.5}
    (folder / "channel.json").write_text(json.dumps({**metadata, **options}))
    (folder / "source_rows.json").write_text(json.dumps(list(range(1, len(ids) + 1))))


def job_trainer(job: Job, task: str, **arguments: Any) -> JobTrainer:
    for name, lengths in (("train", [2 + at % 9 for at in range(ROWS)]), ("validation", [12, 3, 8, 2, 11])):
        write_rows(job.folder / name, task, lengths)
    argv = job_argv(task=task, batch_size=4, learning_rate=0.01, logging_steps=1, attention="eager", **arguments)
    settings = resolve_settings(argv, job.environment, Events(enabled=False))
    transformers.set_seed(1)
    layers = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    head = TASKS[task].head_fields(settings.pretrained, settings.train.metadata)
    config = transformers.BertConfig(vocab_size=VOCABULARY, **layers, **head)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    model = transformers.BertForSequenceClassification(config)
    TASKS[task].start_head(model, settings.train)
    keeper = CheckpointKeeper(None, 1, {}, NO_PROGRESS, None, None)
    return JobTrainer(prepare(model, settings), model, Meter(clock_for("cpu"), 1), keeper)


def losses(trainer: Any) -> list[float]:
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.parametrize("task", [SEVERAL, NUMBER])
def test_losses_equal_a_plain_trainers(job: Job, task: str) -> None:
    """The sixth batch of an epoch has one row."""
    ours = job_trainer(job, task, max_steps=8)
    # The collator of evaluations makes no work that the model does not know.
    plain = transformers.Trainer(
        copy.deepcopy(ours.model), trainer_arguments(ours.settings), ours._eval_collator, ours.train_dataset
    )
    plain._get_train_sampler = lambda *_: ours.sampler
    expected = losses(plain)
    assert losses(ours) == pytest.approx(expected, rel=1e-5)
    assert len({round(loss, 3) for loss in expected}) == 8
    # The loss of an evaluation is over all rows.
    assert ours.evaluate()["eval_loss"] == pytest.approx(plain.evaluate(ours.eval_dataset)["eval_loss"], rel=1e-5)


@pytest.mark.parametrize("task", [SEVERAL, NUMBER])
def test_evaluations_are_scored_in_their_own_order(job: Job, task: str) -> None:
    """Rows are evaluated by length, and reported in the order of the data."""
    trainer = job_trainer(job, task, length_grouping=True, eval_batch_size=2)
    metrics = trainer.evaluate()
    assert trainer.scorer is not None
    rows = trainer.scorer.rows()
    lengths = [12, 3, 8, 2, 11]
    of_length = {n: [NAMES[0]] * (n % 2) + [NAMES[1]] * (n > 6) if task == SEVERAL else n / 4 for n in lengths}
    assert [row["reference"] for row in rows] == [of_length[n] for n in lengths]
    for row, length in zip(rows, lengths, strict=True):
        at = lengths.index(length)
        ids = torch.tensor([[(at * 7 + i) % 30 + 15 for i in range(length)]])
        with torch.no_grad():
            logits = trainer.model(input_ids=ids).logits[0].double()
        expected = dict(zip(NAMES, torch.sigmoid(logits).tolist(), strict=True)) if task == SEVERAL else float(logits)
        assert row["scores" if task == SEVERAL else "prediction"] == pytest.approx(expected, rel=1e-4)
    if task == NUMBER:
        assert metrics["eval_loss"] == pytest.approx(metrics["eval_rmse"] ** 2, rel=1e-5)


def test_a_new_head_starts_at_the_mean(job: Job) -> None:
    lengths = np.array([2 + at % 9 for at in range(ROWS)])
    bias = job_trainer(job, NUMBER).model.classifier.bias
    assert bias.tolist() == pytest.approx([lengths.mean() / 4])
    counts = [int((lengths % 2).sum()), int((lengths > 6).sum()), 0]
    # Log-odds with half a row on both sides.
    odds = [math.log((count + 0.5) / (ROWS - count + 0.5)) for count in counts]
    model, channel = job_trainer(job, SEVERAL).model, job.folder / "train"
    assert model.classifier.bias.tolist() == pytest.approx(odds)
    # A head that was trained before keeps its bias, and so does one with the option off.
    model.classifier.bias.data.zero_()
    model.new_weights = {"classifier.weight"}
    train = read_channel(channel, SEVERAL, (), ("labels",))
    TASKS[SEVERAL].start_head(model, train)
    assert model.classifier.bias.tolist() == [0, 0, 0]
    model.new_weights.add("classifier.bias")
    train.metadata.options["start_at_mean"] = False  # type: ignore[index]
    TASKS[SEVERAL].start_head(model, train)
    assert model.classifier.bias.tolist() == [0, 0, 0]


def refused(folder: Path, rows: list[dict[str, Any]], task: str, **columns: Any) -> str:
    file = write(folder / "a.jsonl", [{"text": "t", **row} for row in rows])
    data = Data(train=str(file), validation=str(file), columns=Columns(**columns))
    with pytest.raises(InputError) as caught:
        stage(StagingRequest(task=task, data=data, model=MODEL, max_length=16), folder / "home")
    return str(caught.value).replace(str(file), "FILE")


def test_bad_rows_are_all_in_one_message(tmp_path: Path) -> None:
    numbers: list[Any] = [1, "2.5", " -3e1 ", "three", math.nan, None, True, 1e19, "1,5", "inf"]
    assert refused(tmp_path, [{"label": each} for each in numbers], NUMBER) == (
        "7 bad rows: FILE line 4: column 'label' must be a number, such as 3.5, not 'three'; "
        "FILE line 5: column 'label' must be a number, such as 3.5, not nan; "
        "FILE line 6: column 'label' must be a number, such as 3.5, not null; "
        "FILE line 7: column 'label' must be a number, such as 3.5, not True; "
        "FILE line 8: column 'label' must be a number of at most 1e+18, not 1e+19; "
        "and 2 more problems; data.skip_bad_rows: true leaves out the rows with an empty or null value (2)"
    )
    lists: list[Any] = [["a"], [], '["a", "b"]', "a, b", [0, 0], [None]]
    message = refused(tmp_path, [{"label": each} for each in lists], SEVERAL)
    assert message.startswith("3 bad rows: FILE line 4: column 'label' must be a list, not 'a, b'; a table holds")
    assert "FILE line 5: column 'label' has the label 0 twice. A list has the labels of its row;" in message
    assert "FILE line 6: column 'label' must be a word or a number, not null" in message
    both = [{"x": 1, "y": 0}, {"x": "true", "y": "0"}, {"x": 0.0, "y": False}, {"x": 1, "y": 2}]
    assert refused(tmp_path, both, SEVERAL, labels=["x", "y"]) == (
        "FILE line 4: column 'y' is 2: it must be 0 or 1, or true or false"
    )
    several = refused(tmp_path, [{"label": ["a"]}, {"label": ["b"]}], "classification")
    assert "column 'label' is a list; for several labels a row, set task: multi-label-classification" in several


def test_labels_are_lists_or_columns(tmp_path: Path) -> None:
    columns = write(tmp_path / "a.csv", [{"text": f"t {at}", "x": at % 2, "y": int(at == 2)} for at in range(4)])
    lists = write(
        tmp_path / "a.jsonl", [{"text": f"t {at}", "label": ["x"] * (at % 2) + ["y"] * (at == 2)} for at in range(4)]
    )
    made = []
    for file, names in ((columns, Columns(labels=("x", "y"))), (lists, Columns())):
        data = Data(train=str(file), validation=str(file), columns=names)
        staged = stage(StagingRequest(task=SEVERAL, data=data, model=MODEL, max_length=16), tmp_path / "home")
        channel = read_channel(Path(staged.channels["train"].removeprefix("file://")), SEVERAL, (), ("labels",))
        made.append([channel.rows[at]["labels"].tolist() for at in range(4)])
        assert channel.metadata.label_names == ("x", "y")
        assert staged.description.train.class_counts == (2, 1)
    assert made == [[[], [0], [1], [0]]] * 2


def test_scores_by_hand_and_by_other_libraries() -> None:
    generator = np.random.default_rng(3)
    actual, predicted = (generator.random((40, 4)) < share for share in ([0.5, 0.3, 0.1, 0], [0.4, 0.4, 0.1, 0]))
    # scikit-learn 1.9.1: f1_score(average="micro" and "macro", zero_division=0), accuracy_score.
    assert label_scores(actual, predicted) == pytest.approx(GOLDEN_LABELS)
    assert label_scores(actual & False, predicted & False) == {"f1_micro": 0, "f1_macro": 0, "exact_labels": 1}
    numbers = generator.integers(0, 6, 50).astype(float)
    guesses = np.round(numbers + generator.normal(0, 2, 50))
    # scipy 1.17.1: spearmanr and pearsonr; scikit-learn: root_mean_squared_error, mean_absolute_error. Many are equal.
    assert number_scores(numbers, guesses) == pytest.approx({**number_scores(numbers, guesses), **GOLDEN_NUMBERS})
    constant = number_scores(np.array([1.0, 2.0, 6.0]), np.array([3.0, 3.0, 3.0]))
    assert (constant["spearman"], constant["pearson"]) == (0, 0)
    # Errors of the mean, 3: 2, 1 and 3.
    assert (constant["rmse_commonest"], constant["mae_commonest"]) == pytest.approx((math.sqrt(14 / 3), 2))


GOLDEN_LABELS = {"f1_micro": 0.27692307692307694, "f1_macro": 0.15675990675990675, "exact_labels": 0.2}
GOLDEN_NUMBERS = {
    "spearman": 0.7671765714846108,
    "pearson": 0.7203375544319067,
    "rmse": 2.029778313018444,
    "mae": 1.56,
}
