"""Time from the command to the first training step."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.support.command import Trained, train
from benchmarks.support.data import emotion_fields
from benchmarks.support.results import median_row, write

ROUNDS = 5


def parts(done: Trained) -> dict[str, float]:
    """Return the seconds from the command to the job's first event, and to its first step."""
    to_start = done.first("start").time - done.started_at
    to_step = done.first("metric").time - done.started_at
    return {"command to start event": to_start, "command to first step": to_step}


def main() -> None:
    """Measure the first run in a new folder, then a run whose data is already staged."""
    fields = emotion_fields(1600, 200) | {"max_steps": "2", "logging_steps": "1", "save_model": "false"}
    first: list[dict[str, float]] = []
    again: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as name:
            first.append(parts(train(Path(name), fields)))
            again.append(parts(train(Path(name), fields)))
    rows = [median_row(f"first time: {part}", [each[part] for each in first], "s") for part in first[0]]
    rows += [median_row(f"data staged: {part}", [each[part] for each in again], "s") for part in again[0]]
    write("start", rows, ["MiniLM on 1,600 rows of emotion, compiler none; `python -m experiments train`."])


if __name__ == "__main__":
    main()
