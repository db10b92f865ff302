"""Fine-tune a classifier of sentence pairs on MNLI with Trainer, and save its predictions.

The channels `train` and `test` have files of JSON lines, CSV or TSV, also as .gz, with the columns `premise`,
`hypothesis` and `label`. The file runs in containers from Python 3.6 and Transformers 4.6 on, also with SageMaker's
library for model parallelism, which Trainer itself calls.
"""

import csv
import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path

from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)
from transformers.utils import logging

CLASSES = ["entailment", "neutral", "contradiction"]
"""Names in the order of the numbers in MNLI's files. Rows without a label have `-` or -1."""


@dataclass
class ScriptArguments:
    """Arguments that TrainingArguments lacks."""

    model_name_or_path: str
    task_name: str = "mnli"
    max_seq_length: int = 128


def rows(channel):
    """Return the labelled rows of a channel."""
    found = []
    for path in sorted(Path(os.environ["SM_CHANNEL_" + channel]).glob("*.*")):
        with (gzip.open if path.suffix == ".gz" else open)(str(path), "rt", encoding="utf-8", newline="") as file:
            if ".json" in path.name:
                found += [json.loads(line) for line in file if line.strip()]
            elif ".tsv" in path.name:
                found += list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
            else:
                found += list(csv.DictReader(file))
    return [row for row in found if row["label"] not in ("-", "-1", -1)]


def number(label):
    """Return the number of a class, which a file may have by its name."""
    return CLASSES.index(label) if label in CLASSES else int(label)


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    args, training_args = HfArgumentParser((ScriptArguments, TrainingArguments)).parse_args_into_dataclasses()
    if args.task_name != "mnli":
        raise SystemExit("--task_name {} is not supported: this script trains on mnli".format(args.task_name))
    if training_args.process_index == 0:
        logging.set_verbosity_info()
    set_seed(training_args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model_name_or_path)
    model = AutoModelForSequenceClassification.from_pretrained(
        args.model_name_or_path,
        id2label=dict(enumerate(CLASSES)),
        label2id={name: at for at, name in enumerate(CLASSES)},
    )

    def features(pairs):
        texts = [row["premise"] for row in pairs], [row["hypothesis"] for row in pairs]
        encoded = tokenizer(*texts, truncation=True, max_length=args.max_seq_length, padding="max_length")
        return [
            {"labels": number(row["label"]), **{name: values[at] for name, values in encoded.items()}}
            for at, row in enumerate(pairs)
        ]

    test = features(rows("TEST"))
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=features(rows("TRAIN")) if training_args.do_train else None,
        eval_dataset=test,
        data_collator=default_data_collator,
        compute_metrics=accuracy,
    )
    if training_args.do_train:
        trainer.log_metrics("train", trainer.train().metrics)
        trainer.save_model()
        tokenizer.save_pretrained(training_args.output_dir)
    if training_args.do_eval:
        trainer.log_metrics("eval", trainer.evaluate())
    if training_args.do_predict:
        chosen = trainer.predict(test).predictions.argmax(-1)
        if trainer.is_world_process_zero():
            names = "\n".join(CLASSES[at] for at in chosen)
            Path(os.environ["SM_OUTPUT_DATA_DIR"], "predictions.txt").write_text(names + "\n")


if __name__ == "__main__":
    main()
