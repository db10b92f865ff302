"""Token classification as transformers' documentation teaches it: a plain Trainer with its collator.

https://huggingface.co/docs/transformers/tasks/token_classification
"""

from __future__ import annotations

from typing import Any

from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
)

MAX_LENGTH = 128


def trainer(model_folder: str, rows: list[dict[str, Any]], training_arguments: dict[str, Any]) -> Trainer:
    """Return a Trainer for rows with `tokens` and `ner_tags`. Sentences are truncated to 128 tokens."""
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    names = sorted({tag for row in rows for tag in row["ner_tags"]})
    numbers = {name: number for number, name in enumerate(names)}
    model = AutoModelForTokenClassification.from_pretrained(
        model_folder, id2label=dict(enumerate(names)), label2id=numbers
    )

    def encoded(row: dict[str, Any]) -> dict[str, Any]:
        inputs = tokenizer(row["tokens"], is_split_into_words=True, truncation=True, max_length=MAX_LENGTH)
        labels, before = [], None
        for word in inputs.word_ids():
            labels.append(-100 if word is None or word == before else numbers[row["ner_tags"][word]])
            before = word
        return {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"], "labels": labels}

    return Trainer(
        model=model,
        args=TrainingArguments(**training_arguments),
        train_dataset=[encoded(row) for row in rows],
        data_collator=DataCollatorForTokenClassification(tokenizer),
    )
