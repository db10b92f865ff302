"""Run the job and record each process's rows, or let a process fail: `watched.py train.py --...`.

Environment variables control it. `WATCHED_FOLDER` is the folder for `rows_0.jsonl`, `rows_1.jsonl` and so on: one line
per batch, with the rows as they reach the model. `FAILING` is the rank of a process that runs out of memory in its
third step, and `LIMITED` that of a process with limited memory. With `SAME_ROWS`, all processes train on the rows of
the first one.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import resource
import runpy
import sys
from pathlib import Path
from typing import Any

LIMIT_BYTES = 1_800_000_000


def main(script: str) -> None:
    rank = os.environ.get("RANK", "0")
    if os.environ.get("LIMITED") == rank:
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    sys.path.insert(0, str(Path(script).parent))
    importlib.import_module("train")
    trainer = importlib.import_module("training.job.loop.job_trainer").JobTrainer
    step, calls = trainer.training_step, itertools.count(1)

    def watched(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if os.environ.get("FAILING") == rank and next(calls) == 3:
            raise MemoryError(f"no room for process {rank}")
        if "WATCHED_FOLDER" in os.environ:
            write(Path(os.environ["WATCHED_FOLDER"]) / f"rows_{rank}.jsonl", inputs)
        return step(self, model, inputs, *args, **kwargs)

    trainer.training_step = watched
    if "SAME_ROWS" in os.environ:
        shard = importlib.import_module("accelerate.data_loader").BatchSamplerShard
        shard.process_index = property(lambda self: 0, lambda self, index: None)
    sys.argv = sys.argv[1:]
    runpy.run_path(script, run_name="__main__")


def write(file: Path, inputs: Any) -> None:
    labelled = [at for at, label in enumerate(inputs["labels"].tolist()) if label >= 0]
    lengths = inputs["attention_mask"].sum(dim=1).tolist()
    rows = [inputs["input_ids"][at, : lengths[at]].tolist() for at in labelled]
    with file.open("a") as stream:
        stream.write(json.dumps(rows) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
