"""Make `whole_state.tar.xz` with the present version: `python -m tests.support.earlier.make`. It takes minutes.

The archive shows that later versions read what version 0.1.0 wrote, so make it again only to add to it, with a checkout
of that version.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from tests.support.corpus.files import squad
from tests.support.earlier import REPOSITORY, ROOT, SOURCE, WHOLE, replace_paths
from tests.support.staging.fast_tokenizers import CORPUS, without_special_tokens, wordpiece

HOME = Path(ROOT)
SCRIPT = """\
import argparse, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
parser.add_argument("--output_dir")
args = parser.parse_args()
numbers = [float(each) for each in open(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "numbers.txt"))]
weight = 0.0
for start in range(0, len(numbers), args.batch_size):
    batch = numbers[start : start + args.batch_size]
    loss = sum((weight - each) ** 2 for each in batch) / len(batch)
    weight += 0.2 * sum(each - weight for each in batch) / len(batch)
    print(f"samples={start + len(batch)} loss={loss:.6f}", flush=True)
    time.sleep(0.05)
print(f"eval_loss={loss:.4f}")
open(os.path.join(args.output_dir, "weight.txt"), "w").write(str(weight))
"""
SCRIPT_FILE: dict[str, Any] = {
    "script": {
        "source": "code",
        "entry_point": "loop.py",
        "channels": {"train": "numbers.txt"},
        "hyperparameters": {"batch-size": "$batch_size", "output_dir": "/opt/ml/model"},
        "metrics": {"loss": " loss=([0-9.]+)$", "samples": r"samples=(\d+)", "eval_loss": "eval_loss=(.*)"},
    },
    "machine": {"cores": 1},
}
BERT: dict[str, Any] = {
    "model_type": "bert",
    "weights": "random",
    "tokenizer": f"{ROOT}/words",
    "model_overrides": {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16},
    "base_learning_rate": 0.01,
    "base_batch_size": 8,
    "batch_size": 8,
    "max_length": 24,
    "max_steps": 3,
    "logging_steps": 1,
    "warmup_samples": 0,
    "machine": {"cores": 1},
}
ARMS = {"arms": [{"batch_size": 8}, {"batch_size": 16}]}
CLASSES = {**BERT, "data": {"train": f"{ROOT}/rows.tsv", "validation": f"{ROOT}/rows.tsv"}}
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "classes": {**CLASSES, "compare": {**ARMS, "repeats": 2}},
    "pairs": {**BERT, "data": {"train": f"{ROOT}/pairs.csv", "columns": {"text_pair": "second"}}},
    "questions": {
        **BERT,
        "task": "question-answering",
        "data": {"train": f"{ROOT}/questions.json", "validation": f"{ROOT}/questions.json"},
        "doc_stride": 6,
        "max_answer_length": 6,
    },
    "texts": {
        **BERT,
        "model_type": "gpt2",
        "tokenizer": f"{ROOT}/bytes",
        "model_overrides": {"n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 64},
        "task": "causal-lm",
        "data": {"train": f"{ROOT}/texts.txt"},
    },
    "loop": {**SCRIPT_FILE, "compare": {**ARMS, "repeats": 1}},
    "search": {**CLASSES, "save_model": False},
    "open": {**CLASSES, "save_model": False, "compare": {**ARMS, "repeats": 1}},
}
"""Experiments by name."""
LEFT_OUT = {f"./home/{name}" for name in ("compile-cache", "reports", "checkpoints", "outputs")}
SWEEP = {
    "compilers": "none",
    "batch_sizes": "4..8",
    "trials": 2,
    "repeats": 1,
    "calibration_seconds": 0.1,
    "target.metric": "eval_loss",
    "target.value": 5,
    "evaluations": 2,
    "pruning": "false",
}
INPUTS: dict[str, Any] = {
    "classes": [*CORPUS, "Denver", "x " * 60],
    "pairs": [{"text": CORPUS[0], "text_pair": CORPUS[1]}, {"text": "Denver", "text_pair": "won?"}],
    "questions": [
        {"question": "Who won?", "context": CORPUS[0]},
        {"question": "What's the name?", "context": CORPUS[1]},
    ],
    "texts": ["The Denver", "Who won?"],
}
"""Inputs of the logged models, by experiment."""


def _write_inputs() -> None:
    wordpiece().save_pretrained(HOME / "words")
    without_special_tokens().save_pretrained(HOME / "bytes")
    words = " ".join(CORPUS).split()
    texts = [" ".join(words[at % 30 : at % 30 + 8]) for at in range(64)]
    rows = [f"{text}\t{('calm', 'wild é', 'NA')[at % 3]}" for at, text in enumerate(texts)]
    (HOME / "rows.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    pairs = [f'"{text}","{texts[-at]}",{at % 2}' for at, text in enumerate(texts) if '"' not in text]
    (HOME / "pairs.csv").write_text("\n".join(["text,second,label", *pairs]) + "\n")
    (HOME / "questions.json").write_bytes(squad("v2.0"))
    (HOME / "texts.txt").write_text("\n".join(texts) + "\n")
    (HOME / "code").mkdir()
    (HOME / "code" / "loop.py").write_text(SCRIPT)
    (HOME / "numbers.txt").write_text("\n".join(str(each % 4) for each in range(48)))
    for name, experiment in EXPERIMENTS.items():
        (HOME / f"{name}.yaml").write_text(json.dumps(experiment))


def _environment() -> dict[str, str]:
    own = {"MLFLOW_TRACKING_URI": f"sqlite:///{ROOT}/mlflow.db", "TRAINFARE_HOME": f"{ROOT}/home"}
    return {**os.environ, **own, "HF_HUB_OFFLINE": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}


def _run(verb: str, **fields: Any) -> None:
    words = [word for name, value in fields.items() for word in (f"--{name}", str(value))]
    print(verb, *words, flush=True)
    command = [sys.executable, str(REPOSITORY / "src" / "trainfare.py"), verb, *words]
    subprocess.run(command, cwd=HOME, env=_environment(), check=True, stdout=subprocess.DEVNULL)


def _wait_for_jobs() -> None:
    while not all(
        json.loads(path.read_text()).get("TrainingJobStatus") in {"Completed", "Failed"}
        for path in (HOME / "home" / "jobs").glob("*/state.json")
    ):
        time.sleep(0.5)


def _runs(name: str) -> list[str]:
    """Return the runs of an experiment that have a logged model, in the order of their names."""
    from mlflow import MlflowClient

    client = MlflowClient(_environment()["MLFLOW_TRACKING_URI"])
    experiment = client.get_experiment_by_name(name)
    assert experiment is not None
    runs = [each for each in client.search_runs([experiment.experiment_id]) if "platform.model_id" in each.data.tags]
    return [each.info.run_id for each in sorted(runs, key=lambda each: str(each.info.run_name))]


def _spread_weights() -> None:
    """Make the weights of all models larger: after three steps, a model gives nearly the same answer to all inputs."""
    import torch
    from safetensors.torch import load_file, save_file

    torch.manual_seed(0)
    for path in (HOME / "mlruns").rglob("model.safetensors"):
        weights = load_file(path)
        made = {name: torch.randn_like(each) * 0.3 if each.dim() > 1 else each for name, each in weights.items()}
        save_file(made, path, metadata={"format": "pt"})


def _answers() -> None:
    """Record the answers of the logged models."""
    import mlflow

    mlflow.set_tracking_uri(_environment()["MLFLOW_TRACKING_URI"])
    made = {}
    for name, inputs in INPUTS.items():
        run_id = _runs(name)[0]
        model_id = mlflow.MlflowClient().get_run(run_id).data.tags["platform.model_id"]
        params = {"max_new_tokens": 8} if name == "texts" else None
        answers = mlflow.pyfunc.load_model(f"models:/{model_id}").predict(inputs, params=params)
        records = answers.to_dict(orient="records")
        made[name] = {"run": run_id, "model": model_id, "inputs": inputs, "params": params, "answers": records}
    (HOME / "answers.json").write_text(json.dumps(made, indent=1))


def _kill_endpoints() -> None:
    for path in (HOME / "home" / "endpoints").glob("*/*/address.json"):
        os.kill(json.loads(path.read_text())["pid"], signal.SIGKILL)


def _pack() -> None:
    """Write the archive without pages, charts, copies of the source and caches, which nothing reads."""

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        is_left_out = member.name in LEFT_OUT or member.name.endswith((".png", ".html", "/opt/ml/code", "__pycache__"))
        is_link_to_data = member.issym() and member.linkname.startswith("/")
        return None if is_left_out or is_link_to_data else member

    replace_paths(HOME, {str(REPOSITORY): SOURCE})
    with tarfile.open(WHOLE, "w:xz", preset=9) as archive:
        archive.add(HOME, ".", filter=kept)


if __name__ == "__main__":
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    _write_inputs()
    for name, verb in {"classes": "compare", "loop": "compare"}.items():
        _run(verb, experiment=HOME / f"{name}.yaml")
    for name in ("pairs", "questions", "texts"):
        _run("train", experiment=HOME / f"{name}.yaml")
    _spread_weights()
    _run("sweep", experiment=HOME / "search.yaml", **SWEEP)
    _run("compare", experiment=HOME / "open.yaml", wait="false")
    _run("deploy", run=_runs("pairs")[0], name="open-endpoint")
    _answers()
    _wait_for_jobs()
    _kill_endpoints()
    _pack()
    print(f"{WHOLE}: {WHOLE.stat().st_size:,} bytes")
