"""LoRA by peft with a plain Trainer."""

from __future__ import annotations

from typing import Any

import peft
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)


def trainer(model_folder: str, rows: list[dict[str, Any]], training_arguments: dict[str, Any]) -> Trainer:
    """Return a Trainer that classifies texts with LoRA on all linear layers, at rank 16."""
    labels = sorted({row["label"] for row in rows})
    model = AutoModelForSequenceClassification.from_pretrained(model_folder, num_labels=len(labels))
    lora = peft.LoraConfig(
        task_type="SEQ_CLS", r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["query", "key", "value", "dense"]
    )
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    encoded = tokenizer([row["text"] for row in rows], truncation=True, max_length=64)
    examples = [
        {**{name: encoded[name][at] for name in ("input_ids", "attention_mask")}, "labels": labels.index(row["label"])}
        for at, row in enumerate(rows)
    ]
    return Trainer(
        peft.get_peft_model(model, lora),
        TrainingArguments(**training_arguments),
        train_dataset=examples,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
