"""Read the contents of a trained model's folder without loading its weights."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

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
OTHERS = re.compile(r"(config|generation_config|adapter_config)\.json|README\.md")


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
    return len(path.parts) == 1 and any(each.fullmatch(path.name) for each in (WEIGHTS, TOKENIZER, OTHERS))


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read the trained model in a folder. Raises NotServable if it cannot be served."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        architecture = str(next(iter(config.get("architectures") or []), "no class"))
        labels = {int(number): str(name) for number, name in (config.get("id2label") or {}).items()}
    except FileNotFoundError as error:
        raise NotServable("it has no config.json, so it is not a Transformers folder") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise NotServable(f"its config.json is not that of a Transformers model: {error}") from error
    task = next((task for ending, task in TASKS.items() if architecture.endswith(ending)), None)
    if task is None:
        known = ", ".join(TASKS)
        raise NotServable(f"its config.json names {architecture}; the class that it names must end in {known}")
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    if not any(WEIGHTS.fullmatch(name) for name in files):
        raise NotServable("it has neither model.safetensors nor pytorch_model.bin")
    tokenizer_files = tuple(name for name in files if TOKENIZER.fullmatch(name))
    if not tokenizer_files:
        raise NotServable("it has no tokenizer files, so the model cannot read texts")
    label_names = tuple(labels[number] for number in sorted(labels)) if task == "classification" else ()
    return Checkpoint(task=task, architecture=architecture, label_names=label_names, tokenizer_files=tokenizer_files)
