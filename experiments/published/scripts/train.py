"""Fine-tune a classifier of texts with Trainer: emotions, ratings with one to five stars, or on spot capacity.

Each channel has files of JSON lines, CSV or TSV, also as .gz, with the columns `text` and `label`, or `review_body` and
`stars`. The file runs in containers from Python 3.6 and Transformers 4.6 on.
"""

import argparse
import csv
import gzip
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint
from transformers.utils import logging

EVAL_STRATEGY = "eval_strategy" if hasattr(TrainingArguments, "eval_strategy") else "evaluation_strategy"
"""Name of the argument: it changed in Transformers 4.41."""
STARS = {1: "negative", 2: "negative", 3: "neutral", 4: "positive", 5: "positive"}


def truth(text):
    return text.lower() == "true"


def arguments():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model_id", "--model_name", dest="model", required=True)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--train_batch_size", "--per_device_train_batch_size", dest="batch_size", type=int, default=32)
    parser.add_argument("--eval_batch_size", "--per_device_eval_batch_size", type=int, default=64)
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--fp16", type=truth, default=False)
    parser.add_argument("--max_length", type=int, default=512)
    parser.add_argument("--strategy", help="evaluate and save after each epoch or after `steps`")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--save_total_limit", type=int, default=1)
    parser.add_argument("--load_best_model_at_end", type=truth, default=False)
    parser.add_argument("--metric_for_best_model", default=None)
    parser.add_argument("--logging_steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output_dir", default=os.environ.get("SM_CHECKPOINT_DIR", "/opt/ml/checkpoints"))
    return parser.parse_args()


def rows(channel):
    """Return texts and labels of a channel, or None if the job has no such channel."""
    if "SM_CHANNEL_" + channel not in os.environ:
        return None
    found = []
    for path in sorted(Path(os.environ["SM_CHANNEL_" + channel]).glob("*.*")):
        with (gzip.open if path.suffix == ".gz" else open)(str(path), "rt", encoding="utf-8", newline="") as file:
            if ".json" in path.name:
                found += [json.loads(line) for line in file if line.strip()]
            else:
                found += list(csv.DictReader(file, delimiter="\t" if ".tsv" in path.name else ","))
    if "stars" in found[0]:
        return [row["review_body"] for row in found], [STARS[int(row["stars"])] for row in found]
    return [row["text"] for row in found], [str(row["label"]) for row in found]


def scores(prediction):
    """Return accuracy and macro F1."""
    chosen, labels = prediction.predictions.argmax(-1), prediction.label_ids
    each = [2 * ((chosen == n) & (labels == n)).sum() / ((chosen == n).sum() + (labels == n).sum()) for n in set(labels)]
    return {"accuracy": float((chosen == labels).mean()), "f1": float(np.mean(each))}


def main():
    args = arguments()
    # The Training Compiler reads the number of GPUs from here; its own launcher of several processes sets it.
    os.environ.setdefault("GPU_NUM_DEVICES", os.environ.get("SM_NUM_GPUS", "1"))
    train, test = rows("TRAIN"), rows("TEST") or rows("EVAL")
    classes = sorted(set(train[1]))
    # A compiler needs rows of one length. The reviews are padded to the longest of their batch.
    padding = False if "neutral" in classes else "max_length"
    tokenizer = AutoTokenizer.from_pretrained(args.model)

    def features(texts, labels):
        encoded = tokenizer(texts, truncation=True, max_length=args.max_length, padding=padding)
        return [
            {"labels": classes.index(label), **{name: values[at] for name, values in encoded.items()}}
            for at, label in enumerate(labels)
        ]

    strategy = args.strategy or ("epoch" if test else "steps")
    training_args = TrainingArguments(
        output_dir=args.output_dir,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=args.eval_batch_size,
        learning_rate=args.learning_rate,
        fp16=args.fp16,
        seed=args.seed,
        logging_steps=args.logging_steps,
        save_strategy=strategy,
        save_steps=args.steps,
        eval_steps=args.steps,
        save_total_limit=args.save_total_limit,
        load_best_model_at_end=args.load_best_model_at_end,
        metric_for_best_model=args.metric_for_best_model,
        **{EVAL_STRATEGY: strategy if test else "no"},
    )
    if training_args.process_index == 0:
        logging.set_verbosity_info()
        print("Rows of each class: {}".format(dict(sorted(Counter(train[1]).items()))))
    set_seed(args.seed)
    model = AutoModelForSequenceClassification.from_pretrained(
        args.model, id2label=dict(enumerate(classes)), label2id={name: at for at, name in enumerate(classes)}
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=features(*train),
        eval_dataset=features(*test) if test else None,
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=scores,
    )
    last = get_last_checkpoint(args.output_dir) if Path(args.output_dir).is_dir() else None
    result = trainer.train(resume_from_checkpoint=last)
    trainer.log_metrics("train", result.metrics)
    if test:
        trainer.log_metrics("eval", trainer.evaluate())
    trainer.save_model(os.environ["SM_MODEL_DIR"])
    tokenizer.save_pretrained(os.environ["SM_MODEL_DIR"])


if __name__ == "__main__":
    main()
