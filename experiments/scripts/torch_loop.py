"""Train a bag of words in plain PyTorch: which package is a docstring from?"""

import argparse
import json
import os
import random
from pathlib import Path
from zlib import crc32

import torch
from torch import Tensor, nn

BUCKETS = 2**12
VALIDATION_SHARE = 0.2


def rows(folder: Path) -> list[tuple[list[int], str]]:
    """Return hashed words and label of every line of every file, in the same shuffled order each time."""
    lines = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.open(encoding="utf-8")]
    examples = [
        ([crc32(word.encode()) % BUCKETS for word in row["text"].lower().split()], row["label"]) for row in lines
    ]
    random.Random(0).shuffle(examples)
    return examples


def batch(examples: list[tuple[list[int], str]], labels: list[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the words of all rows, the offset of each row, and the classes."""
    words = [torch.tensor(words) for words, _ in examples]
    starts = torch.tensor([0, *(len(row) for row in words[:-1])]).cumsum(0)
    return torch.cat(words), starts, torch.tensor([labels.index(label) for _, label in examples])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", type=Path, default=os.environ.get("SM_CHANNEL_TRAIN"))
    parser.add_argument("--model-dir", type=Path, default=os.environ.get("SM_MODEL_DIR"))
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    examples = rows(args.train)
    labels = sorted({label for _, label in examples})
    held_out = int(len(examples) * VALIDATION_SHARE)
    validation, train = examples[:held_out], examples[held_out:]
    model = nn.Sequential(nn.EmbeddingBag(BUCKETS, 32), nn.ReLU(), nn.Linear(32, len(labels)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    samples = 0
    for epoch in range(args.epochs):
        random.Random(args.seed + epoch).shuffle(train)
        for start in range(0, len(train), args.batch_size):
            words, starts, classes = batch(train[start : start + args.batch_size], labels)
            loss = nn.functional.cross_entropy(model[1:](model[0](words, starts)), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            samples += len(classes)
            if start // args.batch_size % 10 == 0:
                print(f"samples {samples} loss {loss.item():.4f}")
        words, starts, classes = batch(validation, labels)
        with torch.no_grad():
            logits = model[1:](model[0](words, starts))
        accuracy = (logits.argmax(1) == classes).float().mean().item()
        print(f"epoch {epoch + 1} samples {samples} accuracy {accuracy:.4f}")
    torch.save(model.state_dict(), args.model_dir / "model.pt")


if __name__ == "__main__":
    main()
