"""Public training scripts, unchanged, that take their arguments in ways of their own."""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from mlflow import MlflowClient

from tests.end_to_end.conftest import CommandLine

pytestmark = pytest.mark.slow


@pytest.fixture
def text(shared: Path) -> list[str]:
    """Lines of real text."""
    with gzip.open(shared / "data" / "emotion-train.jsonl.gz", "rt") as rows:
        return [json.loads(row)["text"] for row, _ in zip(rows, range(300), strict=False)]


def experiment(tmp_path: Path, **script: object) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({"script": script, "machine": {"cores": 1}}))
    return path


def test_word_language_model_with_its_flags_and_a_rate_of_20(
    command_line: CommandLine, shared: Path, text: list[str], tmp_path: Path
) -> None:
    (tmp_path / "corpus").mkdir()
    for name, lines in {"train": text[:200], "valid": text[200:250], "test": text[250:]}.items():
        (tmp_path / "corpus" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    sizes = {"emsize": 16, "nhid": 16, "nlayers": 1, "epochs": 1, "log-interval": 5, "bptt": 8}
    path = experiment(
        tmp_path,
        source=str(shared / "scripts" / "word_language_model"),
        entry_point="main.py",
        channels={"corpus": str(tmp_path / "corpus")},
        hyperparameters={
            "data": "/opt/ml/input/data/corpus",
            "save": "/opt/ml/model/model.pt",
            **sizes,
            "lr": "$learning_rate",
            "batch_size": "$batch_size",
            "tied": True,
            "dry-run": False,
            "accel": False,
        },
        metrics={"loss": r"\| loss +([0-9.]+)", "rate": r"\| lr ([0-9.]+)"},
    )
    done = command_line(
        "train", {"experiment": path, "base_learning_rate": 20, "base_batch_size": 20, "batch_size": 20}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "arguments as main.py declares them with argparse: accel, dry-run, tied (a flag)" in " ".join(
        done.stdout.split()
    )
    [run] = command_line.runs()
    assert run.data.metrics["rate"] == 20
    assert run.data.params["hp.tied"] == "True"


def test_nanogpt_with_a_configuration_file_and_equals_signs(
    command_line: CommandLine, shared: Path, text: list[str], tmp_path: Path
) -> None:
    (tmp_path / "chars").mkdir()
    letters = sorted(set("".join(text)))
    numbers = np.array([letters.index(letter) for letter in "".join(text)], dtype=np.uint16)
    numbers[:-1000].tofile(tmp_path / "chars" / "train.bin")
    numbers[-1000:].tofile(tmp_path / "chars" / "val.bin")
    (tmp_path / "chars" / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": len(letters)}))
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 16, "max_iters": 3, "eval_iters": 1}
    path = experiment(
        tmp_path,
        source=str(shared / "scripts" / "nanoGPT"),
        channels={"chars": str(tmp_path / "chars")},
        arguments={"style": "equals", "forms": {"config": "positional"}},
        hyperparameters={
            "config": "config/train_shakespeare_char.py",
            "dataset": "/opt/ml/input/data/chars",
            **sizes,
            "out_dir": "/opt/ml/model",
            "device": "cpu",
            "compile": False,
            "log_interval": 1,
            "learning_rate": "$learning_rate",
            "batch_size": "$batch_size",
        },
        metrics={"loss": "loss ([0-9.]+), time", "step": "iter ([0-9]+)"},
    )
    done = command_line("train", {"experiment": path, "batch_size": 8})
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = command_line.runs()
    history = MlflowClient(command_line.uri).get_metric_history(run.info.run_id, "loss")
    assert [point.step for point in history] == [0, 1, 2, 3]
    log = Path(MlflowClient(command_line.uri).download_artifacts(run.info.run_id, "log.txt")).read_text()
    assert "Overriding config with config/train_shakespeare_char.py" in log
    assert "Overriding: compile = False" in log


def test_nlp_example_with_its_flag_and_its_requirements(
    command_line: CommandLine, shared: Path, tmp_path: Path
) -> None:
    """Its data set and metric are on the Hub, so without a network it ends after it has read its arguments."""
    (tmp_path / "code").mkdir()
    shutil.copy(shared / "scripts" / "accelerate-nlp" / "nlp_example.py", tmp_path / "code")
    (tmp_path / "code" / "requirements.txt").write_text("evaluate\n")
    path = experiment(
        tmp_path,
        source=str(tmp_path / "code"),
        entry_point="nlp_example.py",
        hyperparameters={"cpu": True, "mixed_precision": "no"},
        requirements="install",
        environment={"HF_EVALUATE_OFFLINE": 1},
    )
    done = command_line("train", {"experiment": path})
    if "pip cannot install" in done.stderr:
        pytest.skip(f"no package index: {done.stderr.strip()}")
    [run] = command_line.runs()
    client = MlflowClient(command_line.uri)
    log = Path(client.download_artifacts(run.info.run_id, "log.txt")).read_text()
    assert 'metric = evaluate.load("glue", "mrpc")' in log
    assert "usage:" not in log
    pins = Path(client.download_artifacts(run.info.run_id, "script-requirements.txt")).read_text()
    assert pins.startswith("evaluate==")
