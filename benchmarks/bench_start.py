"""Time from the command to the first training step."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.support.command import CommandRun, train
from benchmarks.support.data import emotion_fields
from benchmarks.support.results import median_row, write

ROUNDS = 5


def start_seconds(run: CommandRun) -> dict[str, float]:
    """Return the seconds from the command to the job's `start` event and to its first step."""
    to_start = run.first("start").time - run.started_at
    to_step = run.first("metric").time - run.started_at
    return {"command to start event": to_start, "command to first step": to_step}


def main() -> None:
    """Measure the first run in a new folder, then a run whose data is already staged."""
    fields = emotion_fields(1600, 200) | {"max_steps": "2", "logging_steps": "1", "save_model": "false"}
    first_runs: list[dict[str, float]] = []
    staged_runs: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as name:
            first_runs.append(start_seconds(train(Path(name), fields)))
            staged_runs.append(start_seconds(train(Path(name), fields)))
    rows = [median_row(f"first time: {part}", [run[part] for run in first_runs], "s") for part in first_runs[0]]
    rows += [median_row(f"data staged: {part}", [run[part] for run in staged_runs], "s") for part in staged_runs[0]]
    write("start", rows, ["MiniLM on 1,600 rows of emotion, compiler none; `trainfare train`."])


if __name__ == "__main__":
    main()
