"""From the command to the first training step: ours against the plain script's, and where the time goes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.support.command import Trained, train
from benchmarks.support.data import emotion_fields
from benchmarks.support.results import measured, write

ROUNDS = 5


def parts(done: Trained) -> dict[str, float]:
    """Return the seconds from the command to the job's first word, and on to its first step."""
    spoke = done.first("start").time - done.started_at
    stepped = done.first("metric").time - done.started_at
    return {"command to start event": spoke, "command to first step": stepped}


def main() -> None:
    """Measure the first run in a fresh folder, then runs that find their data staged."""
    fields = emotion_fields(1600, 200) | {"max_steps": "2", "logging_steps": "1", "save_model": "false"}
    first: list[dict[str, float]] = []
    again: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as name:
            first.append(parts(train(Path(name), fields)))
            again.append(parts(train(Path(name), fields)))
    rows = [measured(f"first time: {part}", [each[part] for each in first], "s") for part in first[0]]
    rows += [measured(f"data staged: {part}", [each[part] for each in again], "s") for part in again[0]]
    write("start", rows, ["MiniLM on 1,600 rows of emotion, compiler none; `python -m experiments train`."])


if __name__ == "__main__":
    main()
