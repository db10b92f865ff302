"""Fine-tune a classifier of texts with Trainer: emotions, ratings with one to five stars, or on spot capacity.

Each channel has JSON lines, CSV or TSV, also as .gz, with the columns `text` and `label`, or `review_body` and `stars`.
The file runs in containers from Python 3.6 and Transformers 4.6 on.
"""

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import pandas as pd
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


def truth(text: str) -> bool:
    return text.lower() == "true"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model_id", "--model_name", dest="model", required=True)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--train_batch_size", "--per_device_train_batch_size", dest="batch_size", type=int, default=32)
    parser.add_argument("--eval_batch_size", "--per_device_eval_batch_size", type=int, default=64)
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--fp16", type=truth, default=False)
    parser.add_argument("--max_length", type=int, default=512)
    parser.add_argument("--strategy", help="evaluate and save after each epoch, or after `steps`")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--save_total_limit", type=int, default=1)
    parser.add_argument("--load_best_model_at_end", type=truth, default=False)
    parser.add_argument("--metric_for_best_model")
    parser.add_argument("--logging_steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=42)
    # /opt/ml/checkpoints in a container: SageMaker keeps what is there for the next start of the job.
    parser.add_argument("--output_dir", default=str(Path(os.environ["SM_MODEL_DIR"]).with_name("checkpoints")))
    return parser.parse_args()


def rows(channel: str) -> Optional[Tuple[List[str], List[str]]]:
    """Return the texts and the labels of a channel, or None if the job has no such channel."""
    if "SM_CHANNEL_" + channel not in os.environ:
        return None
    tables = []
    for path in sorted(Path(os.environ["SM_CHANNEL_" + channel]).glob("*.*")):
        if ".json" in path.name:
            tables.append(pd.read_json(str(path), lines=True, dtype=False))
        else:
            tables.append(pd.read_csv(str(path), sep="\t" if ".tsv" in path.name else ",", keep_default_na=False))
    table = pd.concat(tables)
    if "stars" in table:
        return list(table["review_body"]), [STARS[int(each)] for each in table["stars"]]
    return list(table["text"]), [str(each) for each in table["label"]]


def scores(prediction: Any) -> Dict[str, float]:
    """Return accuracy and macro F1."""
    chosen, labels = prediction.predictions.argmax(-1), prediction.label_ids
    each = [
        2 * ((chosen == n) & (labels == n)).sum() / ((chosen == n).sum() + (labels == n).sum()) for n in set(labels)
    ]
    return {"accuracy": float((chosen == labels).mean()), "f1": float(np.mean(each))}


def main() -> None:
    args = arguments()
    # The Training Compiler reads the number of GPUs from here; its own launcher of several processes sets it.
    os.environ.setdefault("GPU_NUM_DEVICES", os.environ.get("SM_NUM_GPUS", "1"))
    train, test = rows("TRAIN"), rows("TEST") or rows("EVAL")
    assert train is not None, "the job needs a channel `train`"
    classes = sorted(set(train[1]))
    # A compiler needs rows of one length. The reviews are padded to the longest of their batch.
    padding = False if "neutral" in classes else "max_length"
    tokenizer = AutoTokenizer.from_pretrained(args.model)

    def features(texts: List[str], labels: List[str]) -> List[Dict[str, Any]]:
        encoded = tokenizer(texts, truncation=True, max_length=args.max_length, padding=padding)
        values = zip(*encoded.values(), map(classes.index, labels))
        return [dict(zip([*encoded, "labels"], each)) for each in values]

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
        print("Rows of each class: {}".format(Counter(train[1])))
    set_seed(args.seed)
    trainer = Trainer(
        model=AutoModelForSequenceClassification.from_pretrained(
            args.model, id2label=dict(enumerate(classes)), label2id={name: at for at, name in enumerate(classes)}
        ),
        args=training_args,
        train_dataset=features(*train),
        eval_dataset=features(*test) if test else None,
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=scores,
    )
    last = get_last_checkpoint(args.output_dir) if Path(args.output_dir).is_dir() else None
    trainer.log_metrics("train", trainer.train(resume_from_checkpoint=last).metrics)
    if test:
        trainer.log_metrics("eval", trainer.evaluate())
    trainer.save_model(os.environ["SM_MODEL_DIR"])
    tokenizer.save_pretrained(os.environ["SM_MODEL_DIR"])


if __name__ == "__main__":
    main()
