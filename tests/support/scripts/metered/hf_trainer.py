"""Train a small BERT with Trainer, and print what its batches and its clock say."""

import json
import time

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

STEPS, ACCUMULATION = 24, 2


class Clock(TrainerCallback):
    def __init__(self):
        self.ends, self.evaluated, self.start = [], 0.0, 0.0

    def on_step_end(self, *_, **__):
        self.ends.append(time.time())

    def on_evaluate(self, *_, **__):
        self.evaluated += time.time() - self.ends[-1] if len(self.ends) < STEPS else 0.0


torch.manual_seed(0)
lengths = torch.randint(3, 12, (96,)).tolist()
rows = [{"input_ids": list(range(1, length + 1)), "labels": length % 2} for length in lengths]
seen = {"batches": 0, "samples": 0, "tokens": 0}


def collate(examples):
    width = max(len(each["input_ids"]) for each in examples)
    ids = torch.tensor([each["input_ids"] + [0] * (width - len(each["input_ids"])) for each in examples])
    return {
        "input_ids": ids,
        "attention_mask": (ids > 0).long(),
        "labels": torch.tensor([e["labels"] for e in examples]),
    }


model = BertForSequenceClassification(
    BertConfig(vocab_size=50, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
)
original = Trainer.training_step


def counted(self, model, inputs, *arguments, **named):
    seen["batches"] += 1
    seen["samples"] += len(inputs["labels"])
    seen["tokens"] += int(inputs["attention_mask"].sum())
    return original(self, model, inputs, *arguments, **named)


Trainer.training_step = counted
arguments = TrainingArguments(
    output_dir="/tmp/unused",
    per_device_train_batch_size=2,
    gradient_accumulation_steps=ACCUMULATION,
    max_steps=STEPS,
    logging_steps=6,
    eval_strategy="steps",
    eval_steps=12,
    save_strategy="no",
    report_to="mlflow",
    disable_tqdm=True,
    use_cpu=True,
)
clock = Clock()
trainer = Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:8], data_collator=collate, callbacks=[clock])
trainer.train()
steady = clock.ends[-1] - clock.ends[9] - clock.evaluated
print("expected", json.dumps({"steps": STEPS, "steady_seconds": steady, **seen}))
