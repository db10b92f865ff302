"""Train a causal language model from scratch with Trainer on texts that are joined and cut in blocks.

The texts are a data set of the Hub or, if the job has a channel `train`, the column `sentence` of its files (TSV, also
as .gz). The file runs in containers from Python 3.8 and Transformers 4.21 on, with PyTorch DDP or PyTorch/XLA.
"""

import csv
import os
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Dict, List, Optional

import pandas as pd
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)
from transformers.utils import logging


@dataclass
class ScriptArguments:
    """Arguments that TrainingArguments lacks."""

    model_type: str
    tokenizer_name: str
    config_overrides: Optional[str] = None
    dataset_name: Optional[str] = None
    dataset_config_name: Optional[str] = None
    block_size: int = 512


def parsed() -> Any:
    """Return the arguments of the script and of Trainer."""
    parser = HfArgumentParser((ScriptArguments, TrainingArguments))
    if not hasattr(TrainingArguments, "evaluation_strategy"):  # renamed in Transformers 4.41, removed later
        parser.add_argument("--evaluation_strategy", dest="eval_strategy")
    if not hasattr(TrainingArguments, "overwrite_output_dir"):  # without effect: nothing is resumed here
        parser.add_argument("--overwrite_output_dir")
    return parser.parse_args_into_dataclasses()[:2]


def sentences(args: ScriptArguments, split: str) -> List[str]:
    """Return the sentences of a split: the channel's of that name, or those of the Hub."""
    folder = os.environ.get("SM_CHANNEL_" + split.upper())
    if folder is None:
        from datasets import load_dataset

        return list(load_dataset(args.dataset_name, args.dataset_config_name, split=split)["sentence"])
    files = sorted(Path(folder).glob("*.tsv*"))
    tables = [pd.read_csv(each, sep="\t", keep_default_na=False, quoting=csv.QUOTE_NONE) for each in files]
    return list(pd.concat(tables)["sentence"])


def main() -> None:
    args, training_args = parsed()
    if training_args.process_index == 0:
        logging.set_verbosity_info()
    set_seed(training_args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer_name)
    config = AutoConfig.for_model(args.model_type)
    if args.config_overrides:
        config.update_from_string(args.config_overrides)
    model = AutoModelForCausalLM.from_config(config)
    model.resize_token_embeddings(len(tokenizer))

    def blocks(split: str) -> List[Dict[str, Any]]:
        """Return whole blocks of tokens, each its own labels."""
        tokens = list(chain.from_iterable(tokenizer(sentences(args, split))["input_ids"]))
        whole = len(tokens) // args.block_size * args.block_size
        cut = [tokens[at : at + args.block_size] for at in range(0, whole, args.block_size)]
        return [{"input_ids": block, "attention_mask": [1] * len(block), "labels": block} for block in cut]

    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=blocks("train") if training_args.do_train else None,
        eval_dataset=blocks("validation") if training_args.do_eval else None,
        data_collator=default_data_collator,
    )
    if training_args.do_train:
        trainer.log_metrics("train", trainer.train().metrics)
        trainer.save_model()
        tokenizer.save_pretrained(training_args.output_dir)
    if training_args.do_eval:
        trainer.log_metrics("eval", trainer.evaluate())


def _mp_fn(index: int) -> None:
    """Run as one of several processes of PyTorch/XLA."""
    main()


if __name__ == "__main__":
    main()
