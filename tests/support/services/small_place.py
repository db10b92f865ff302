"""A working folder with jobs, staged data and a tracking database, in which commands run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT
from tests.support.job.tiny import TINY
from tests.support.services.following import until_unsupervised

SCRIPT = """
import os
rows = [float(line) for line in open(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "numbers.txt"))]
for number, row in enumerate(rows):
    print(f"samples={number + 1} loss={row:.3f}")
open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w").write("x" * 1000)
print("trained on", len(rows), flush=True)
"""
EXPERIMENT = """
script:
  source: code
  entry_point: loop.py
  channels: {train: numbers.txt}
  hyperparameters: {seed: $seed}
  metrics: {loss: ' loss=([0-9.]+)$', samples: 'samples=(\\d+)'}
machine: {cores: 1}
"""


@dataclass(frozen=True)
class Place:
    """A working folder with a tracking database and a state folder."""

    work: Path
    jobs: Sequence[str] = ()
    """Names of its jobs."""

    def command(self, words: Sequence[str], output: Path, limit_seconds: float) -> int | None:
        """Run a command of the product, append what it prints to a file, and return its exit code.

        Return None after the time limit.
        """
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")},
            "PYTHONPATH": str(ROOT),
            "TRAINFARE_HOME": str(self.work / "home"),
            "TRAINFARE_SLOTS": str(self.work.parent / "slots"),
            "MLFLOW_TRACKING_URI": f"sqlite:///{self.work / 'mlflow.db'}",
        }
        with output.open("ab") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "experiments", *words],
                cwd=self.work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            return process.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None


def make_place(folder: Path) -> Place:
    """Make the jobs: two trainings by a script, one of them in a group that is still open, and one on staged data."""
    place = Place(folder / "work")
    (place.work / "code").mkdir(parents=True)
    (place.work / "code" / "loop.py").write_text(SCRIPT)
    (place.work / "numbers.txt").write_text("\n".join(str(number % 4) for number in range(32)))
    (place.work / "script.yaml").write_text(EXPERIMENT)
    rows = "".join(f"this was {'good' if n % 2 else 'bad'} {n}\t{n % 2}\n" for n in range(40))
    (place.work / "rows.tsv").write_text(f"text\tlabel\n{rows}")
    log = folder / "made.txt"
    for words in (by_script(place, 1), on_data(place, 1), [*by_script(place, 2), "--wait", "false"]):
        if place.command(words, log, 300) != 0:
            raise SystemExit(f"error: {' '.join(words)} failed: {log.read_text()[-3000:]}")
    states = list((place.work / "home" / "jobs").glob("*/state.json"))
    while not all('"Completed"' in state.read_text() for state in states):
        time.sleep(0.1)
    until_unsupervised(place.work / "home")
    return Place(place.work, tuple(sorted(state.parent.name for state in states)))


def by_script(place: Place, seed: int) -> list[str]:
    """Return the command that trains by the script."""
    return ["train", "--experiment", str(place.work / "script.yaml"), "--seed", str(seed)]


def on_data(place: Place, seed: int) -> list[str]:
    """Return the command that trains a tiny model on staged data."""
    fields = {
        "data.train": place.work / "rows.tsv",
        "data.columns.text": "text",
        "data.columns.label": "label",
        "max_length": 16,
        "batch_size": 8,
        "epochs": 1,
        "base_learning_rate": 1e-4,
        "warmup_samples": 0,
        "machine.cores": 1,
        "save_model": "false",
        "seed": seed,
        **TINY,
    }
    return ["train", *(word for name, value in fields.items() for word in (f"--{name}", str(value)))]
