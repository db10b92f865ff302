"""A state folder with jobs, staged data and databases, and ways to damage one of its files."""

from __future__ import annotations

import importlib
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.attacks.forked import start, wait
from tests.support.job.tiny import TINY
from tests.support.services.following import until_unsupervised
from training.services.local.job_folder import JobFolder

SCRIPT = """
import os
rows = [float(line) for line in open(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "numbers.txt"))]
for number, row in enumerate(rows):
    print(f"samples={number + 1} loss={row:.3f}")
open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w").write("x" * 1000)
print("trained on", len(rows), flush=True)
"""
TRAINED = "trained on 32"
EXPERIMENT = """
script:
  source: code
  entry_point: loop.py
  channels: {train: numbers.txt}
  hyperparameters: {seed: $seed}
  metrics: {loss: ' loss=([0-9.]+)$', samples: 'samples=(\\d+)'}
machine: {cores: 1}
"""

KINDS = {
    "request or state of a job": r"home/jobs/[^/]+/(state|request)\.json",
    "log or lock of a job": r"home/jobs/[^/]+/[^/]+",
    "container of a job": r"home/jobs/.+",
    "digest": r"home/(staged|sources)/\.[^/]+\.sha256",
    "copy of a script": r"home/sources/[^.].+",
    "staged data": r"home/staged/[^.].+",
    "artifact or checkpoint": r"home/(outputs|checkpoints)/.+",
    "report": r"home/reports/.+",
    "database of sweeps": r"home/sweeps\.db.*",
    "id or lock of the state folder": r"home/.+",
    "tracking database": r"\.?mlflow\.db.*",
    "artifact in MLflow": r"mlruns/.+",
}
"""Kinds of files, each with the pattern of its paths. A file is of the first kind that matches."""
MADE_AGAIN = ("digest", "copy of a script", "staged data")
"""Kinds that the same command makes again: it must succeed."""

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
    """A working folder with a tracking database and a state folder, and a copy of it as it was before any damage."""

    work: Path
    template: Path
    jobs: Sequence[str] = ()
    """Names of the jobs in the copy."""

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

    def restore(self) -> None:
        """Replace the working folder by the copy."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.template, self.work, symlinks=True)

    def files(self, kind: str) -> list[Path]:
        """Return the files of a kind in the working folder."""
        paths = (path for path in sorted(self.work.rglob("*")) if path.is_file() and not path.is_symlink())
        return [path for path in paths if self._kind(path) == kind]

    def _kind(self, path: Path) -> str | None:
        name = path.relative_to(self.work).as_posix()
        return next((kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, name)), None)


def make_place(folder: Path) -> Place:
    """Make the jobs: two trainings by a script, one of them in a group that is still open, and one on staged data."""
    place = Place(folder / "work", folder / "template")
    (place.work / "code").mkdir(parents=True)
    (place.work / "code" / "loop.py").write_text(SCRIPT)
    (place.work / "numbers.txt").write_text("\n".join(str(number % 4) for number in range(32)))
    (place.work / "script.yaml").write_text(EXPERIMENT)
    rows = "".join(f"this was {'good' if n % 2 else 'bad'} {n}\t{n % 2}\n" for n in range(40))
    (place.work / "rows.tsv").write_text(f"text\tlabel\n{rows}")
    for words in (by_script(place, 1), on_data(place, 1), [*by_script(place, 2), "--wait", "false"], SWEEP):
        code = make_study(place) if words is SWEEP else place.command(words, folder / "made.txt", 300)
        if code != 0:
            raise SystemExit(f"error: {' '.join(words)} failed: {(folder / 'made.txt').read_text()[-3000:]}")
    states = list((place.work / "home" / "jobs").glob("*/state.json"))
    while not all('"Completed"' in state.read_text() for state in states):
        time.sleep(0.1)
    until_unsupervised(place.work / "home")
    shutil.copytree(place.work, place.template, symlinks=True)
    return Place(place.work, place.template, tuple(sorted(state.parent.name for state in states)))


SWEEP = ["sweep"]


def make_study(place: Place) -> int | None:
    """Create the sweeps' database with a study."""
    from tests.support.attacks.first_use import use_sweeps

    return wait(start(lambda: use_sweeps(place.work / "home", "study"), place.work.parent / "made.txt"), 60)


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


def kill_left(place: Place) -> None:
    """Kill the jobs that a damaged state left running, and wait for their supervisors, which still write."""
    from training.services.local.processes import kill_marked

    for base in (place.work / "home" / "jobs").glob("*/opt/ml"):
        with suppress(OSError):
            kill_marked(str(base))
            deadline = time.monotonic() + 30
            while JobFolder(base.parents[1]).is_supervised() and time.monotonic() < deadline:
                time.sleep(0.05)


def preload() -> None:
    """Import what the commands import."""
    for name in PRELOADED:
        importlib.import_module(name)
