"""A state folder with jobs, staged data and a tracking database, and ways to damage a file."""

from __future__ import annotations

import importlib
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.attacks.forked import start, wait
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

PRELOADED = (
    *("alembic.command", "mlflow.store.tracking.sqlalchemy_store", "pandas", "PIL.Image"),
    *("experiments.running.attach_group", "experiments.running.launch", "experiments.running.manage_jobs"),
    *("experiments.running.write_report", "models.logged.group_models", "experiments.running.prune_state"),
)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _zeros(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


WAYS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "random bytes": lambda path: path.write_bytes(random.Random(1).randbytes(max(300, path.stat().st_size))),
    "other JSON": lambda path: path.write_text("[1, 2]"),
    "a folder": _folder,
    "a link to itself": _loop,
    "a pipe": _pipe,
    "a link to /dev/zero": _zeros,
    "no rights": lambda path: path.chmod(0),
}
"""Ways to damage a file. The last one is not tried by root, who may read everything."""


@dataclass(frozen=True)
class Place:
    """A working folder with a tracking database and a state folder."""

    work: Path
    jobs: Sequence[str] = ()
    """Names of its jobs."""

    def command(self, words: Sequence[str], output: Path, limit_seconds: float) -> int | None:
        """Run a command of the product, and return its exit code, or None after the time limit."""
        from experiments.__main__ import main

        def work() -> int:
            os.chdir(self.work)
            os.umask(0o077)
            for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
                del os.environ[name]
            os.environ |= {
                "TRAINFARE_HOME": str(self.work / "home"),
                "TRAINFARE_SLOTS": str(self.work.parent / "slots"),
                "MLFLOW_TRACKING_URI": f"sqlite:///{self.work / 'mlflow.db'}",
                "MLFLOW_DISABLE_TELEMETRY": "true",
                "HF_HUB_OFFLINE": "1",
            }
            return main(words)

        return wait(start(work, output), limit_seconds)


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


def preload() -> None:
    """Import what the commands import."""
    for name in PRELOADED:
        importlib.import_module(name)
