"""Regression on pairs of texts by a plain Trainer."""

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
    """Return a Trainer for the number `label` of each pair of `sentence1` and `sentence2`."""
    model = AutoModelForSequenceClassification.from_pretrained(model_folder, num_labels=1, problem_type="regression")
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    texts = [row["sentence1"] for row in rows], [row["sentence2"] for row in rows]
    encoded = tokenizer(*texts, truncation=True, max_length=128)
    examples = [
        {**{name: encoded[name][at] for name in encoded}, "labels": float(row["label"])} for at, row in enumerate(rows)
    ]
    return Trainer(
        model,
        TrainingArguments(**training_arguments),
        train_dataset=examples,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
