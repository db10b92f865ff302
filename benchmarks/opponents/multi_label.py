"""Several labels by a plain Trainer."""

from __future__ import annotations

from typing import Any

from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)


def trainer(model_folder: str, rows: list[dict[str, Any]], training_arguments: dict[str, Any]) -> Trainer:
    """Return a Trainer for any number of `labels` of each `text`."""
    labels = sorted({label for row in rows for label in row["labels"]})
    model = AutoModelForSequenceClassification.from_pretrained(
        model_folder, num_labels=len(labels), problem_type="multi_label_classification"
    )
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    encoded = tokenizer([row["text"] for row in rows], truncation=True, max_length=64)
    examples = [
        {
            "input_ids": encoded["input_ids"][at],
            "attention_mask": encoded["attention_mask"][at],
            "labels": [float(label in row["labels"]) for label in labels],
        }
        for at, row in enumerate(rows)
    ]
    return Trainer(
        model,
        TrainingArguments(**training_arguments),
        train_dataset=examples,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
