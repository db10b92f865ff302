"""Train sentence-transformers on pairs, with the loss as the module that is called."""

import pathlib
import sys

from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
)

rows = {"anchor": [f"question {n}" for n in range(40)], "positive": [f"the answer {n}" for n in range(40)]}
model = SentenceTransformer(sys.argv[1], device="cpu")
arguments = SentenceTransformerTrainingArguments(
    output_dir=str(pathlib.Path.cwd() / "out"),
    per_device_train_batch_size=8,
    num_train_epochs=3,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
)
trainer = SentenceTransformerTrainer(
    model, arguments, train_dataset=Dataset.from_dict(rows), loss=losses.MultipleNegativesRankingLoss(model)
)
trainer.train()
print("expected", trainer.state.global_step, 15, 120)
