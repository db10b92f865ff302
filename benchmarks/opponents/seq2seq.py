"""Sequence to sequence with Seq2SeqTrainer."""

from __future__ import annotations

from typing import Any

from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
)


def trainer(model_folder: str, rows: list[dict[str, Any]], training_arguments: dict[str, Any]) -> Trainer:
    """Return a Seq2SeqTrainer of rows with `mr` and `ref`, each at most 96 tokens."""
    model = AutoModelForSeq2SeqLM.from_pretrained(model_folder)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    encoded = tokenizer(
        [row["mr"] for row in rows], text_target=[row["ref"] for row in rows], truncation=True, max_length=96
    )
    names = ("input_ids", "attention_mask", "labels")
    examples = [{name: encoded[name][at] for name in names} for at in range(len(rows))]
    return Seq2SeqTrainer(
        model,
        Seq2SeqTrainingArguments(**training_arguments),
        train_dataset=examples,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
    )
