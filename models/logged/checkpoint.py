"""Contents of a trained model's folder, read without loading weights."""

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
"""Task of a model, by the end of its architecture's name."""

WEIGHTS = re.compile(r"(model|pytorch_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")
TOKENIZER = re.compile(
    r"tokenizer.*|vocab\..*|merges\.txt|special_tokens_map\.json|added_tokens\.json|.*\.model|spiece.*|"
    r"chat_template.*|.*_sentencepiece.*"
)
CONFIGURATION = re.compile(r"(config|generation_config|adapter_config)\.json")
README = "README.md"


class NoModel(Exception):
    """The folder holds no model that can be served. The message is one sentence."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Contents of a model's folder."""

    task: str
    """classification, question-answering or causal-lm."""
    architecture: str
    """Class of Transformers."""
    label_names: tuple[str, ...]
    """Labels of a classifier, in the order of their numbers."""
    tokenizer_files: tuple[str, ...]


def is_needed(path: PurePosixPath) -> bool:
    """Return whether a model needs a file of an artifact. Checkpoints and optimizer states are not needed."""
    is_at_top, name = len(path.parts) == 1, path.name
    patterns = (WEIGHTS, TOKENIZER, CONFIGURATION)
    return is_at_top and (name == README or any(pattern.fullmatch(name) for pattern in patterns))


def read_checkpoint(folder: Path) -> Checkpoint:
    """Return the contents of a folder. Raises NoModel."""
    config = _config(folder)
    architecture = _architecture(config)
    task = next((task for ending, task in TASKS.items() if architecture.endswith(ending)), None)
    if task is None:
        known = ", ".join(TASKS)
        raise NoModel(f"its config.json names {architecture or 'no architecture'}: served are {known}")
    files = {path.name for path in folder.iterdir() if path.is_file()}
    if not any(WEIGHTS.fullmatch(name) for name in files):
        raise NoModel("it has no model.safetensors and no pytorch_model.bin")
    tokenizer_files = tuple(sorted(name for name in files if TOKENIZER.fullmatch(name)))
    if not tokenizer_files:
        raise NoModel("it has no tokenizer: without one, no text can be asked")
    return Checkpoint(
        task=task,
        architecture=architecture,
        label_names=_label_names(config) if task == "classification" else (),
        tokenizer_files=tokenizer_files,
    )


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        raise NoModel("it has no config.json, so it is no folder of Transformers")
    try:
        config = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise NoModel(f"its config.json is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise NoModel("its config.json holds no object")
    return config


def _architecture(config: dict[str, Any]) -> str:
    names = config.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise NoModel(f"its config.json has architectures {json.dumps(names)[:60]}, which must be a list of names")
    return next(iter(names), "")


def _label_names(config: dict[str, Any]) -> tuple[str, ...]:
    names = config.get("id2label") or {}
    if not isinstance(names, dict) or not all(re.fullmatch("[0-9]{1,9}", number) for number in names):
        raise NoModel(
            f"its config.json has id2label {json.dumps(names)[:60]}, which must be an object of names by number"
        )
    return tuple(str(names[number]) for number in sorted(names, key=int))
