"""MiniLM with a head fitted to the emotion data: a model with meaningful answers, without a long training."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.support.data import DATA, MINILM
from training.staging.models.model_files import locate

LABELS = ("sadness", "joy", "love", "anger", "fear", "surprise")
FITTED_ROWS = 1_600
_EPOCHS = 300


def emotion(part: str, count: int) -> list[dict[str, Any]]:
    """Return the first rows of a split of the emotion data, each with text and label."""
    with gzip.open(DATA / f"emotion-{part}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line, _ in zip(file, range(count), strict=False)]


def contexts(count: int) -> list[str]:
    """Return the first contexts of SQuAD, about 150 tokens each."""
    with gzip.open(DATA / "squad-v1.1-train-first4373.json.gz", "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    return [each["context"] for article in articles for each in article["paragraphs"]][:count]


def write_model(folder: Path) -> None:
    """Write the model: the pretrained encoder, with a head fitted to its features by logistic regression."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(0)
    source = locate(MINILM["model"]).location
    tokenizer = AutoTokenizer.from_pretrained(source)
    names = dict(enumerate(LABELS))
    model = AutoModelForSequenceClassification.from_pretrained(source, id2label=names, num_labels=len(names)).eval()
    rows = emotion("train", FITTED_ROWS)
    features = _features(model.base_model, tokenizer, [row["text"] for row in rows])
    labels = torch.tensor(
        [row["label"] if isinstance(row["label"], int) else LABELS.index(row["label"]) for row in rows]
    )
    optimizer = torch.optim.AdamW(model.classifier.parameters(), lr=1e-2, weight_decay=1e-2)
    for _ in range(_EPOCHS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model.classifier(features), labels).backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _features(encoder: Any, tokenizer: Any, texts: Sequence[str]) -> Any:
    import torch

    parts = []
    with torch.no_grad():
        for start in range(0, len(texts), 32):
            batch = tokenizer(list(texts[start : start + 32]), padding=True, truncation=True, return_tensors="pt")
            parts.append(encoder(**batch).pooler_output)
    return torch.cat(parts)
