"""Embeddings by sentence-transformers."""

from __future__ import annotations

from typing import Any

import datasets
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import CoSENTLoss, MultipleNegativesRankingLoss
from transformers import Trainer

TEXTS = ("text", "text_pair", "negative")


def trainer(model_folder: str, rows: list[dict[str, Any]], training_arguments: dict[str, Any]) -> Trainer:
    """Return a trainer for pairs with a `score`, and else for texts that match, with a `negative` or without.

    Rows have `text`, `text_pair` and perhaps one of the two others.
    """
    model = SentenceTransformer(model_folder)
    model.max_seq_length = 128
    has_scores = "score" in rows[0]
    columns = [name for name in (*TEXTS, "score") if name in rows[0]]
    return SentenceTransformerTrainer(
        model,
        SentenceTransformerTrainingArguments(**training_arguments),
        train_dataset=datasets.Dataset.from_dict({name: [row[name] for row in rows] for name in columns}),
        loss=CoSENTLoss(model) if has_scores else MultipleNegativesRankingLoss(model),
    )
