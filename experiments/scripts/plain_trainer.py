"""Fine-tune an encoder with Trainer, as in the examples of Transformers: which package is a docstring from?"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    EvalPrediction,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    set_seed,
)


@dataclass
class ScriptArguments:
    """Arguments that TrainingArguments lacks."""

    model_name_or_path: str = field(default_factory=lambda: os.environ["SM_CHANNEL_MODEL"])
    train_rows: int = 600
    validation_rows: int = 150
    max_length: int = 48


def rows(count: int) -> list[tuple[str, str]]:
    """Return `count` texts and labels, spread evenly over the channel `train`."""
    [file] = Path(os.environ["SM_CHANNEL_TRAIN"]).glob("*.jsonl")
    lines = file.read_text("utf-8").splitlines()
    chosen = [json.loads(line) for line in lines[:: max(1, len(lines) // count)]][:count]
    return [(row["text"], row["label"]) for row in chosen]


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main() -> None:
    args, training_args = HfArgumentParser((ScriptArguments, TrainingArguments)).parse_args_into_dataclasses()
    set_seed(training_args.seed)
    examples = rows(args.train_rows + args.validation_rows)
    labels = sorted({label for _, label in examples})
    tokenizer = AutoTokenizer.from_pretrained(args.model_name_or_path)
    model = AutoModelForSequenceClassification.from_pretrained(args.model_name_or_path, num_labels=len(labels))
    data = [
        {**tokenizer(text, truncation=True, max_length=args.max_length), "label": labels.index(label)}
        for text, label in examples
    ]
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0)).tolist()
    train = [data[at] for at in order[: args.train_rows]]
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=train,
        eval_dataset=[data[at] for at in order[args.train_rows :]],
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
        compute_metrics=accuracy,
    )
    result = trainer.train()
    trainer.save_model()
    trainer.log_metrics("train", {**result.metrics, "train_samples": len(train)})
    trainer.log_metrics("eval", trainer.evaluate())


if __name__ == "__main__":
    main()
