"""Two trainings that take turns, a few steps each, so that what slows the machine slows both.

Each runs in its own process. A turn is some optimizer steps, and the other side waits meanwhile. `install` hooks
into Transformers' Trainer, which both sides build on. The file `$TURNS_RESULT` gets what was measured.

`python -m benchmarks.opponents.turns TRAIN_PY [ARGUMENT ...]` runs a job's `train.py` in this way.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS_VARIABLE = "TURNS_STEPS"
"""Variable with the number of steps of a turn."""
RESULT_VARIABLE = "TURNS_RESULT"
PIPES_VARIABLE = "TURNS_PIPES"
"""Variable with the numbers of the pipe to read from and the one to write to, and `first` or `second`."""


class Turns:
    """The turns of one side: the seconds and real tokens of each."""

    def __init__(self, reading: int, writing: int, *, is_first: bool, steps: int) -> None:
        self._turn_steps, self._reading, self._writing, self._is_first = steps, reading, writing, is_first
        self.turns: list[tuple[float, int]] = []
        self._steps = self._tokens = 0
        self._start = 0.0

    def begin(self) -> None:
        """Wait until both sides have loaded everything, and then for the first turn."""
        self._give()
        self._take()
        if not self._is_first:
            self._take()
        self._start = time.perf_counter()

    def count(self, inputs: Any) -> None:
        """Count the real tokens of a batch."""
        whole = next(each for each in inputs.values() if getattr(each, "ndim", 0) >= 2)
        mask = inputs.get("attention_mask")
        self._tokens += int(mask.sum()) if mask is not None else whole.numel()

    def end_step(self) -> None:
        self._steps += 1
        if self._steps < self._turn_steps:
            return
        self.turns.append((time.perf_counter() - self._start, self._tokens))
        self._steps = self._tokens = 0
        self._give()
        self._take()
        self._start = time.perf_counter()

    def end(self) -> None:
        peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        Path(os.environ[RESULT_VARIABLE]).write_text(json.dumps({"turns": self.turns, "peak_gib": peak_gib}))

    def _give(self) -> None:
        try:
            os.write(self._writing, b".")
        except BrokenPipeError:  # the other side has ended
            return

    def _take(self) -> None:
        os.read(self._reading, 1)  # returns nothing once the other side has ended


def install() -> None:
    """Let the Trainer of this process take turns."""
    from transformers import Trainer
    from transformers.trainer_callback import CallbackHandler

    reading, writing, place = os.environ[PIPES_VARIABLE].split()
    turns = Turns(int(reading), int(writing), is_first=place == "first", steps=int(os.environ[STEPS_VARIABLE]))
    training_step = Trainer.training_step

    @functools.wraps(training_step)
    def counted(self: Any, model: Any, inputs: Any, *arguments: Any, **named: Any) -> Any:
        turns.count(inputs)
        return training_step(self, model, inputs, *arguments, **named)

    Trainer.training_step = counted
    for name, act in {"on_train_begin": turns.begin, "on_step_end": turns.end_step, "on_train_end": turns.end}.items():
        setattr(CallbackHandler, name, followed_by(getattr(CallbackHandler, name), act))


def followed_by(function: Callable[..., Any], act: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def both(*arguments: Any, **named: Any) -> Any:
        value = function(*arguments, **named)
        act()
        return value

    return both


def main(train_py: str, *arguments: str) -> None:
    sys.argv[:] = [train_py, *arguments]
    sys.path.insert(0, str(Path(train_py).parent))
    job = runpy.run_path(train_py, run_name="job")
    install()
    job["exit_with_code"]()


if __name__ == "__main__":
    main(*sys.argv[1:])
