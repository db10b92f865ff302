"""`python -m benchmarks.opponents.run NAME REQUEST`: train with one of these programs, and print what it measured.

REQUEST is a JSON file with `model`, `rows` (a file with one JSON object a line) and `training_arguments`. The last line
of the output is a JSON object with samples and real tokens per second of the steady steps, and the peak memory in GiB.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

WARM_UP_STEPS = 3
"""Steps that do not count, as in our jobs (`steady_after_steps`)."""


class CountingCollator:
    """A collator that counts the real tokens of each batch. It has the attributes of the one it wraps."""

    def __init__(self, collate: Any) -> None:
        self._collate = collate
        self.tokens: list[int] = []

    def __call__(self, rows: Any) -> Any:
        made = self._collate(rows)
        ids, mask = made.get("input_ids"), made.get("attention_mask")
        self.tokens.append(int(mask.sum()) if mask is not None else 0 if ids is None else ids.numel())
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collate, name)


class StepRecorder(TrainerCallback):  # type: ignore[misc]
    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.perf_counter())


def main(name: str, request_file: str) -> None:
    request = json.loads(Path(request_file).read_text())
    rows = [json.loads(line) for line in Path(request["rows"]).read_text().splitlines()]
    program = importlib.import_module(f"benchmarks.opponents.{name}")
    trainer = program.trainer(request["model"], rows, request["training_arguments"])
    recorder = StepRecorder()
    trainer.data_collator = collator = CountingCollator(trainer.data_collator)
    trainer.add_callback(recorder)
    trainer.train()
    seconds, steps = recorder.ends[-1] - recorder.ends[WARM_UP_STEPS - 1], len(recorder.ends) - WARM_UP_STEPS
    measured = {
        "samples_per_second": steps * trainer.args.per_device_train_batch_size / seconds,
        "tokens_per_second": sum(collator.tokens[WARM_UP_STEPS : len(recorder.ends)]) / seconds,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main(*sys.argv[1:])
