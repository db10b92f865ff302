"""Train a small classifier with Transformers' Trainer: is the first token of a row even?"""

import random
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EvalPrediction,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
)


@dataclass
class DataArguments:
    """Arguments that TrainingArguments lacks."""

    train_rows: int = 320
    validation_rows: int = 64


def rows(count: int) -> list[dict[str, Any]]:
    """Return rows of eight tokens with their label."""
    tokens = [[random.randrange(100) for _ in range(8)] for _ in range(count)]
    return [{"input_ids": torch.tensor(each), "labels": each[0] % 2} for each in tokens]


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main() -> None:
    data_args, training_args = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    trainer = Trainer(
        model=BertForSequenceClassification(BertConfig(vocab_size=100, **size)),
        args=training_args,
        train_dataset=rows(data_args.train_rows),
        eval_dataset=rows(data_args.validation_rows),
        compute_metrics=accuracy,
    )
    if training_args.do_train:
        result = trainer.train()
        trainer.log_metrics("train", {**result.metrics, "train_samples": data_args.train_rows})
    if training_args.do_eval:
        trainer.log_metrics("eval", trainer.evaluate())


if __name__ == "__main__":
    main()
