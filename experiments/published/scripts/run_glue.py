"""Fine-tune a classifier of sentence pairs on MNLI with Trainer, and save its predictions.

The channels `train` and `test` have JSON lines or TSV, also as .gz, with the columns `premise`, `hypothesis` and
`label`. The file runs in containers from Python 3.6 and Transformers 4.6 on, also with SageMaker's library for model
parallelism, which Trainer itself calls.
"""

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pandas as pd
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


def rows(channel: str) -> Tuple[List[str], List[str], List[int]]:
    """Return premises, hypotheses and classes of the labelled rows of a channel."""
    tables = []
    for path in sorted(Path(os.environ["SM_CHANNEL_" + channel]).glob("*.*")):
        if ".json" in path.name:
            tables.append(pd.read_json(str(path), lines=True, dtype=False))
        else:
            tables.append(pd.read_csv(str(path), sep="\t", keep_default_na=False, quoting=csv.QUOTE_NONE))
    table = pd.concat(tables)
    table = table[~table["label"].isin(["-", "-1", -1])]
    classes = [CLASSES.index(each) if each in CLASSES else int(each) for each in table["label"]]
    return list(table["premise"]), list(table["hypothesis"]), classes


def accuracy(prediction: Any) -> Dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main() -> None:
    args, training_args = HfArgumentParser((ScriptArguments, TrainingArguments)).parse_args_into_dataclasses()
    if args.task_name != "mnli":
        raise SystemExit("--task_name {} is not supported: this script trains on mnli".format(args.task_name))
    if training_args.process_index == 0:
        logging.set_verbosity_info()
    set_seed(training_args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model_name_or_path)

    def features(channel: str) -> List[Dict[str, Any]]:
        premises, hypotheses, classes = rows(channel)
        encoded = tokenizer(premises, hypotheses, truncation=True, max_length=args.max_seq_length, padding="max_length")
        return [dict(zip([*encoded, "labels"], values)) for values in zip(*encoded.values(), classes)]

    test = features("TEST")
    names = {"id2label": dict(enumerate(CLASSES)), "label2id": {name: at for at, name in enumerate(CLASSES)}}
    trainer = Trainer(
        model=AutoModelForSequenceClassification.from_pretrained(args.model_name_or_path, **names),
        args=training_args,
        train_dataset=features("TRAIN") if training_args.do_train else None,
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
            lines = "".join(CLASSES[at] + "\n" for at in chosen)
            Path(os.environ["SM_OUTPUT_DATA_DIR"], "predictions.txt").write_text(lines)


if __name__ == "__main__":
    main()
