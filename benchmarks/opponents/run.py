"""`python -m benchmarks.opponents.run NAME REQUEST`: train with one of these programs, in turns with a job of ours.

REQUEST is a JSON file with `model`, `rows` (a file with one JSON object a line) and `training_arguments`.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from torch.utils.data import Sampler
from transformers import Trainer

from benchmarks.opponents import turns


class OurOrder(Sampler):  # type: ignore[misc]
    """The rows in the order in which our job reads them (`TrainSampler`), so that both sides see the same batches."""

    def __init__(self, rows: int, seed: int) -> None:
        self._rows, self._seed, self._epoch = rows, seed, 0

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[int]:
        order = np.random.Generator(np.random.PCG64([self._seed, self._epoch])).permutation(self._rows)
        self._epoch += 1
        yield from order.tolist()


def main(name: str, request_file: str) -> None:
    request = json.loads(Path(request_file).read_text())
    rows = [json.loads(line) for line in Path(request["rows"]).read_text().splitlines()]
    program = importlib.import_module(f"benchmarks.opponents.{name}")
    turns.install()
    trainer = program.trainer(request["model"], rows, request["training_arguments"])
    if len(trainer.train_dataset) == len(rows):  # packed rows have an order of their own
        Trainer._get_train_sampler = lambda self, _=None: OurOrder(len(rows), self.args.seed)
    trainer.train()


if __name__ == "__main__":
    main(*sys.argv[1:])
