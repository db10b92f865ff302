"""Read the contents of a trained model's folder without loading its weights."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

TASKS = {
    "ForSequenceClassification": "classification",
    "ForQuestionAnswering": "question-answering",
    "ForCausalLM": "causal-lm",
    "LMHeadModel": "causal-lm",
}
"""Task of a model, by the end of its class name in config.json."""

WEIGHTS = re.compile(r"(model|pytorch_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")
TOKENIZER = re.compile(
    r"tokenizer.*|vocab\..*|merges\.txt|special_tokens_map\.json|added_tokens\.json|.*\.model|spiece.*|"
    r"chat_template.*|.*_sentencepiece.*"
)
CONFIGURATION = re.compile(r"(config|generation_config|adapter_config)\.json")
README = "README.md"


class NotServable(Exception):
    """The folder has no model that can be served. The message is one sentence about the folder."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Contents of a model's folder."""

    task: str
    """classification, question-answering or causal-lm."""
    architecture: str
    """Name of the Transformers class."""
    label_names: tuple[str, ...]
    """Label names of a classifier, in the order of their numbers."""
    tokenizer_files: tuple[str, ...]


def is_needed(path: PurePosixPath) -> bool:
    """Return whether a served model needs a file of the job's artifact. It needs no checkpoints or optimizer states."""
    is_at_top, name = len(path.parts) == 1, path.name
    patterns = (WEIGHTS, TOKENIZER, CONFIGURATION)
    return is_at_top and (name == README or any(pattern.fullmatch(name) for pattern in patterns))


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read the trained model in a folder. Raises NotServable if it cannot be served."""
    config = _config(folder)
    architecture = _architecture(config)
    task = next((task for ending, task in TASKS.items() if architecture.endswith(ending)), None)
    if task is None:
        known = ", ".join(TASKS)
        raise NotServable(
            f"its config.json names {architecture or 'no class'}; the class that it names must end in {known}"
        )
    files = {path.name for path in folder.iterdir() if path.is_file()}
    if not any(WEIGHTS.fullmatch(name) for name in files):
        raise NotServable("it has neither model.safetensors nor pytorch_model.bin")
    tokenizer_files = tuple(sorted(name for name in files if TOKENIZER.fullmatch(name)))
    if not tokenizer_files:
        raise NotServable("it has no tokenizer files, so the model cannot read texts")
    return Checkpoint(
        task=task,
        architecture=architecture,
        label_names=_label_names(config) if task == "classification" else (),
        tokenizer_files=tokenizer_files,
    )


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        raise NotServable("it has no config.json, so it is not a Transformers folder")
    try:
        config = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise NotServable(f"its config.json is not valid JSON: {error}") from error
    if not isinstance(config, dict):
        raise NotServable("its config.json is not a JSON object")
    return config


def _architecture(config: dict[str, Any]) -> str:
    names = config.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise NotServable(f"its config.json has architectures {json.dumps(names)[:60]}: it must be a list of names")
    return next(iter(names), "")


def _label_names(config: dict[str, Any]) -> tuple[str, ...]:
    names = config.get("id2label") or {}
    if not isinstance(names, dict) or not all(re.fullmatch("[0-9]{1,9}", number) for number in names):
        raise NotServable(
            f"its config.json has id2label {json.dumps(names)[:60]}: it must be an object from numbers to names"
        )
    return tuple(str(names[number]) for number in sorted(names, key=int))
