"""nanoGPT's lines: `iter 10: loss 1.2345, time 12.34ms, mfu 3.21%` and `step 250: train loss 1.2, val loss 1.3`.

The evaluation of step N runs before iteration N; the line of iteration N is printed after it. Every batch is full.
"""

from __future__ import annotations

import re

from tracking.recording.script_formats.reading import NUMBER, Reading, Unit, integer

_ITERATION = re.compile(rf"\biter (\d+): loss ({NUMBER}), time {NUMBER}ms\b")
_EVALUATION = re.compile(rf"\bstep (\d+): train loss ({NUMBER}), val loss ({NUMBER})")
_TOKENS = re.compile(r"^tokens per iteration will be: ([\d,]+)")
_OVERRIDE = re.compile(r"^Overriding: (batch_size|block_size|gradient_accumulation_steps) = (\d+)$")


class NanoGpt:
    """Reader of nanoGPT's lines."""

    unit: Unit = "update"

    def __init__(self) -> None:
        self._settings: dict[str, int] = {}
        self._tokens: int | None = None

    @property
    def logged_batch_size(self) -> int | None:
        """Sequences per iteration, from the settings that the script prints. Its defaults are not in the log."""
        settings = self._settings
        if {"batch_size", "gradient_accumulation_steps"} <= settings.keys():
            return settings["batch_size"] * settings["gradient_accumulation_steps"]
        if self._tokens is None:
            return None
        return self._tokens // settings["block_size"] if settings.get("block_size") else 0

    def read(self, part: str) -> Reading | None:
        """Return the content of a line; None for other lines."""
        if match := _ITERATION.search(part):
            step = int(match[1])
            return Reading(values={"loss": float(match[2])}, step=step, steps_done=step + 1)
        if match := _EVALUATION.search(part):
            values = {"train_loss": float(match[2]), "eval_loss": float(match[3])}
            return Reading(values=values, step=int(match[1]), is_evaluation=True)
        if match := _OVERRIDE.match(part):
            self._settings[match[1]] = int(match[2])
        elif match := _TOKENS.match(part):
            self._tokens = integer(match[1])
        return None
