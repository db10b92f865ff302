"""Contract of every task: stage, train, evaluate, resume, log, predict as evaluated, and refuse bad rows.

A new task adds example rows here.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest

from models.inference.evaluation import Evaluation
from models.inference.predictor import load_predictor
from models.logged import flavor
from tests.support.job.job_process import Ended, Job
from tests.support.staging.fast_tokenizers import wordpiece
from tracking.groups.planned_job import ModelPlan
from training.contract.errors import InputError
from training.job.tasks import TASKS, Task, find_task
from training.job.tasks.inputs import BadInputs
from training.job.tasks.token_classification import entities
from training.staging.sources.request import Columns, Data, StagingRequest
from training.staging.stage import stage

CONTEXT = "The Denver Broncos defeated the Carolina Panthers to earn their third title in Santa Clara"
TEXTS = [f"{CONTEXT[at:]} {'won ' * (at % 4)}in 1999" for at in range(0, 48, 2)]
TAGS = {"Denver": "B-team", "Broncos": "I-team", "Carolina": "B-team", "Panthers": "I-team", "Clara": "B-place"}
EXAMPLES: Mapping[str, list[dict[str, Any]]] = {
    "classification": [{"text": text, "label": ("lost", "won")[at % 2]} for at, text in enumerate(TEXTS)],
    "causal-lm": [{"text": text} for text in TEXTS],
    "chat": [
        {"messages": [{"role": "user", "content": "Who won?"}, {"role": "assistant", "content": text[:12]}]}
        for text in TEXTS
    ],
    "seq2seq": [{"text": text, "target": text.split()[-3]} for text in TEXTS],
    "embedding": [{"text": text, "positive": f"{text[:20]} lost"} for text in TEXTS],
    "question-answering": [
        {
            "id": str(at),
            "context": f"{text} Panthers",
            "question": "Who won?",
            "answers": {"text": ["Panthers"], "answer_start": [len(text) + 1]},
        }
        for at, text in enumerate(TEXTS)
    ],
    # One row in three has no label.
    "multi-label-classification": [
        {"text": text, "label": [["long"], ["odd", "long"], []][at % 3]} for at, text in enumerate(TEXTS)
    ],
    "regression": [{"text": text, "label": len(text) / 8} for text in TEXTS],
    "token-classification": [
        {"tokens": text.split(), "ner_tags": [TAGS.get(word, "O") for word in text.split()]} for text in TEXTS
    ],
}
COLUMNS: Mapping[str, Columns] = {"embedding": Columns(text_pair="positive")}
TEMPLATE = (
    "{% for m in messages %}{{ ('[CLS]' if m['role'] == 'assistant' else '') + m['content'] + '[SEP]' }}{% endfor %}"
    "{{ '[CLS]' if add_generation_prompt else '' }}"
)
"""A chat template with the special tokens of BERT."""
OPTIONS: Mapping[str, dict[str, Any]] = {
    "causal-lm": {"packing": False},
    "chat": {"packing": False, "chat_template": TEMPLATE},
    "question-answering": {"doc_stride": 4},
    "seq2seq": {"source_prefix": "lose: ", "max_target_length": 4, "max_new_tokens": 2, "num_beams": 2},
}
LENGTH, BATCH = 24, 5
SETTINGS = {"max_length": LENGTH, "eval_batch_size": BATCH, "learning_rate": 0.01, "attention": "eager"}
QUALITY = """
import json, pathlib
def score(rows):
    pathlib.Path(__file__).with_name("rows.json").write_text(json.dumps(rows))
    return len(rows)
"""
"""A user's quality function, which keeps the rows that it gets."""


@dataclass(frozen=True)
class Trained:
    """A task whose example rows were staged and trained for 20 steps, with a checkpoint after 10."""

    task: Task
    rows: list[dict[str, Any]]
    job: Job
    ended: Ended
    channels: dict[str, Path]


@pytest.fixture(scope="module")
def base_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT without a head, with a tokenizer, and beside it `encoder-decoder`, a random T5 with the same."""
    from transformers import BertConfig, BertModel, T5Config, T5ForConditionalGeneration, set_seed

    set_seed(1)
    folder, tokenizer = tmp_path_factory.mktemp("base"), wordpiece()
    size = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "max_position_embeddings": 64}
    layers = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(**size, **layers)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    t5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
    ends = {"decoder_start_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.sep_token_id}
    T5ForConditionalGeneration(T5Config(vocab_size=len(tokenizer), **t5, **ends)).save_pretrained(folder / T5)
    tokenizer.save_pretrained(folder / T5)
    return folder


T5 = "encoder-decoder"


def model_for(task: Task, base: Path) -> Path:
    return base / T5 if task.name == "seq2seq" else base


def columns_of(task: Task) -> Columns:
    return COLUMNS.get(task.name, Columns())


def request_for(task: Task, rows: list[dict[str, Any]], model: Path, folder: Path) -> StagingRequest:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = Data(train=str(file), validation=str(file), columns=columns_of(task))
    model = model_for(task, model)
    return StagingRequest(task=task.name, data=data, model=str(model), max_length=LENGTH, **OPTIONS.get(task.name, {}))


def run(job: Job, task: Task) -> Ended:
    own = {"quality_function": "own.py:score", "quality_digest": "0"}
    return job.run(task=task.name, **SETTINGS, **own, max_steps=20, save_strategy="steps", save_steps=10)


@pytest.fixture(scope="module", params=TASKS)
def trained(request: pytest.FixtureRequest, base_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    task, folder = TASKS[request.param], tmp_path_factory.mktemp("task")
    rows = EXAMPLES[task.name]
    staged = stage(request_for(task, rows, base_model, folder), folder / "home")
    channels = {name: Path(unquote(urlparse(uri).path)) for name, uri in staged.channels.items()}
    job = Job(folder / "job", model_for(task, base_model)).with_checkpoints()
    channels["quality"] = folder / "quality"
    channels["quality"].mkdir()
    (channels["quality"] / "own.py").write_text(QUALITY)
    job.environment |= {f"SM_CHANNEL_{name.upper()}": str(path) for name, path in channels.items()}
    return Trained(task, rows, job, run(job, task), channels)


def test_it_learns_and_reports_its_metrics(trained: Trained) -> None:
    metrics = trained.ended.result["metrics"]
    reported = trained.task.metrics_of(columns_of(trained.task))
    assert {metric.name for metric in reported} <= metrics.keys()
    for metric in reported:
        assert metrics[metric.name] >= 0
        assert metrics[metric.name] <= metric.best or not metric.higher_is_better
    assert trained.ended.losses[-1] < trained.ended.losses[0]


def test_a_quality_function_gets_every_row(trained: Trained) -> None:
    """The rows of the data, in their order, as plain values; for a language model the loss in place of an answer."""
    rows = json.loads((trained.channels["quality"] / "rows.json").read_text())
    assert trained.ended.result["metrics"]["eval_score"] == len(rows) >= len(trained.rows)
    expected = {"loss", "tokens"} if trained.task.predicts_tokens else {"reference", "prediction"}
    assert all(expected <= row.keys() for row in rows)
    table = trained.ended.result["tables"].get("predictions.json", [])
    shown_rows = [shown(row["prediction"], row.get("tokens")) for row in rows[: len(table)]]
    assert [row["prediction"] for row in table] == shown_rows


def test_a_saved_model_shows_its_task(trained: Trained) -> None:
    config = json.loads((trained.ended.folder / "model" / "config.json").read_text())
    assert find_task(config) is trained.task
    assert flavor.served_task(trained.ended.folder / "model") == trained.task.name


def test_it_resumes_bit_for_bit(trained: Trained, tmp_path: Path) -> None:
    copy = Job(tmp_path / "job", tmp_path)
    shutil.copytree(trained.job.folder / "checkpoints", copy.folder / "checkpoints")
    shutil.rmtree(max((copy.folder / "checkpoints").glob("checkpoint-*"), key=lambda path: int(path.name[11:])))
    copy.environment = {
        name: value.replace(str(trained.job.folder), str(copy.folder))
        for name, value in trained.job.environment.items()
    }
    resumed = run(copy, trained.task)
    assert resumed.events("start")[0]["resumed_from_step"] == 10
    assert resumed.weights == trained.ended.weights


def test_a_logged_model_answers_as_evaluated(trained: Trained, tmp_path: Path) -> None:
    task, options = trained.task, {"max_length": LENGTH, **OPTIONS.get(trained.task.name, {})}
    shutil.copytree(trained.ended.folder / "model", tmp_path / "model")
    answering = {name: options[name] for name in task.answering_options if name in options}
    evaluation = Evaluation(
        precision="fp32", attention="eager", batch_size=BATCH, max_length=None if task.predicts_tokens else LENGTH
    )
    flavor.write(tmp_path, task.name, ModelPlan(answering=answering), {}, evaluation)
    import mlflow.pyfunc  # its warnings were silenced when the model was written

    inputs = [{name: row[name] for name in task.inputs} for row in trained.rows]
    plain = [each["text"] if list(each) == ["text"] else each for each in inputs]
    if task.name == "chat":
        plain = [row["messages"][:-1] for row in trained.rows]
        inputs = [{"messages": messages} for messages in plain]
    parameters = {"max_new_tokens": 2} if task.generates else None
    answers = (
        mlflow.pyfunc.load_model(str(tmp_path))
        .predict(inputs if task.names_input else plain, parameters)
        .to_dict(orient="records")
    )
    predictor = load_predictor(tmp_path / "model", evaluation=evaluation)
    predictor.loaded = replace(predictor.loaded, options=answering)
    assert answers == predictor.answer(plain, parameters)
    names = [name for name, _ in task.answer_fields]
    assert [list(each) for each in answers] == [names] * len(answers)
    table = trained.ended.result["tables"].get("predictions.json", [])
    assert [shown(each[names[0]]) for each in answers[: len(table)]] == [row["prediction"] for row in table]


def shown(answer: Any, words: list[str] | None = None) -> Any:
    """Return an answer, or the tags of words, as the table of predictions shows it: entities as a text."""
    if words is not None and isinstance(answer, list):
        answer = [{"entity_group": kind, "word": " ".join(words[a : b + 1])} for kind, a, b in entities(answer)]
    if not isinstance(answer, list):
        return answer
    return "; ".join(each if isinstance(each, str) else f"{each['entity_group']}: {each['word']}" for each in answer)


def test_bad_rows_and_inputs_are_refused(trained: Trained, base_model: Path, tmp_path: Path) -> None:
    task, column = trained.task, trained.task.inputs[0]
    rows = [*trained.rows[:3], {**trained.rows[3], column: 7.5}, *trained.rows[4:]]
    with pytest.raises(InputError, match=rf"rows\.jsonl line 4.*column '{column}' must be (text|a list), not 7.5"):
        stage(request_for(task, rows, base_model, tmp_path), tmp_path / "home")
    predictor = load_predictor(trained.ended.folder / "model", precision="fp32")
    with pytest.raises(BadInputs, match="inputs must be"):
        predictor.read(7)
    with pytest.raises(BadInputs, match="parameter 'no_such' is unknown"):
        predictor.read(task.example_input(), {"no_such": 1})
