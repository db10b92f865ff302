"""A well-tuned plain script: stock `Trainer` with everything that speeds it up without changing the training.

    python tuned_trainer.py REQUEST.json '{"precision": "bf16", "attention": "sdpa", "max_steps": 40, "evaluates": true,
        "output": DIR}'

It trains what a job of ours has trained, from the job's request: the same model, token ids, batch size, learning rate,
seed and optimizer settings. Batches are padded to their longest row, rows of similar length are grouped and AdamW is
fused. Prints one JSON object with the real tokens per second of the steady steps and, with `evaluates`, the loss of the
validation rows.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import transformers
from transformers import (
    AutoConfig,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

WARM_UP_STEPS = 3
"""Steps that do not count, as in our jobs (`steady_after_steps`)."""
MODELS = {
    "classification": "AutoModelForSequenceClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "causal-lm": "AutoModelForCausalLM",
}
SAME_SETTINGS = ["learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm", "seed"]
COLUMNS = {"label": "labels", "start_position": "start_positions", "end_position": "end_positions"}
"""Column of a channel -> input of the model."""


class StepRecorder(TrainerCallback):  # type: ignore[misc]
    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.perf_counter())


def channels(request: Mapping[str, Any]) -> dict[str, Path]:
    return {
        each["ChannelName"]: Path(each["DataSource"]["S3DataSource"]["S3Uri"].removeprefix("file://"))
        for each in request["InputDataConfig"]
    }


def read_rows(folder: Path, config: Any) -> list[dict[str, Any]]:
    """Return the rows of a channel, without token types that the model does not have."""
    rows = pd.read_parquet(folder / "data.parquet").rename(columns=COLUMNS)
    if getattr(config, "type_vocab_size", 0) < 2:
        rows = rows.drop(columns="token_type_ids", errors="ignore")
    kept = [name for name in rows.columns if name in ("input_ids", "token_type_ids", *COLUMNS.values())]
    return [
        {str(name): value.tolist() if hasattr(value, "tolist") else value for name, value in row.items()}
        for row in rows[kept].to_dict("records")
    ]


def validation_loss(trainer: Trainer, task: str) -> float:
    """Return the mean loss of the validation rows, or of their tokens: Trainer's own is the mean of the batches."""
    total, count = 0.0, 0
    trainer.model.eval()
    for batch in trainer.get_eval_dataloader():
        with torch.no_grad(), trainer.compute_loss_context_manager():
            loss = float(trainer.model(**batch).loss)
        size = int((batch["labels"][:, 1:] != -100).sum()) if task == "causal-lm" else len(batch["input_ids"])
        total, count = total + loss * size, count + size
    return total / count


def new_trainer(request: Mapping[str, Any], own: Mapping[str, Any], tokens: list[int]) -> Trainer:
    """Return the trainer of the script. It appends the real tokens of each batch to `tokens`."""
    values = {name: json.loads(text) for name, text in request["HyperParameters"].items()}
    folders, task = channels(request), values["task"]
    metadata = json.loads((folders["train"] / "channel.json").read_text())
    transformers.set_seed(values["seed"])
    config = AutoConfig.from_pretrained(folders["model"], num_labels=max(2, len(metadata["label_names"])))
    tokenizer = AutoTokenizer.from_pretrained(folders["model"])
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(metadata["pad_token_id"])
    arguments = TrainingArguments(
        output_dir=own["output"],
        max_steps=own["max_steps"],
        per_device_train_batch_size=values["batch_size"],
        per_device_eval_batch_size=values["eval_batch_size"],
        **{name: values[name] for name in SAME_SETTINGS},
        lr_scheduler_type=values["lr_scheduler"],
        use_cpu=not torch.cuda.is_available(),
        torch_compile=bool(own.get("compile")),
        bf16=own["precision"] == "bf16",
        optim="adamw_torch_fused",
        train_sampling_strategy="group_by_length",
        logging_steps=own["max_steps"],
        save_strategy="no",
        disable_tqdm=True,
        report_to=[],
    )
    head = getattr(transformers, MODELS[task])
    if values["weights"] == "random":
        model = head.from_config(config, attn_implementation=own["attention"])
    else:
        model = head.from_pretrained(folders["model"], config=config, attn_implementation=own["attention"])
    is_lm = task == "causal-lm"
    multiple = {} if arguments.use_cpu else {"pad_to_multiple_of": 8}
    collator = (
        DataCollatorForLanguageModeling(tokenizer, mlm=False, **multiple)
        if is_lm
        else DataCollatorWithPadding(tokenizer, **multiple)
    )

    def collate(rows: list[dict[str, Any]]) -> Any:
        tokens.append(sum(len(row["input_ids"]) for row in rows))
        return collator(rows)

    return Trainer(
        model,
        arguments,
        data_collator=collate,
        train_dataset=read_rows(folders["train"], config),
        eval_dataset=read_rows(folders["validation"], config),
    )


def main(path: str, own: Mapping[str, Any]) -> None:
    request, recorder, tokens = json.loads(Path(path).read_text()), StepRecorder(), list[int]()
    task = json.loads(request["HyperParameters"]["task"])
    trainer = new_trainer(request, own, tokens)
    trainer.add_callback(recorder)
    trainer.train()
    seconds = recorder.ends[-1] - recorder.ends[WARM_UP_STEPS - 1]
    rate = sum(tokens[WARM_UP_STEPS : len(recorder.ends)]) / seconds
    loss = {"eval_loss": validation_loss(trainer, task)} if own["evaluates"] else {}
    print(json.dumps({"tokens_per_second": rate, **loss}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
