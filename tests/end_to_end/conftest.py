"""The command line as a user runs it, in a separate folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.conftest import ROOT
from tests.support.fork_server.interpreter import INTERPRETER
from tests.support.job.tiny import TINY


@dataclass(frozen=True)
class CommandLine:
    """Runs verbs against one tracking store, with state in one folder."""

    folder: Path
    uri: str

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which the verbs run."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
        return clean | {
            "MLFLOW_TRACKING_URI": self.uri,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "TRAINFARE_HOME": str(self.folder / "home"),
            "HF_HUB_OFFLINE": "1",
            # `python` starts quickly; everything else is the environment's.
            "PATH": os.pathsep.join(
                [*(str(Path(each).parent) for each in (sys.executable, INTERPRETER)), os.environ["PATH"]]
            ),
        }

    def __call__(self, verb: str, fields: Mapping[str, object] = {}) -> subprocess.CompletedProcess[str]:
        """Run a verb to completion. Progress lines are removed from `stderr`, because a fast machine prints none."""
        done = subprocess.run(
            self.command(verb, fields), cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=560
        )
        lines = done.stderr.splitlines(keepends=True)
        done.stderr = "".join(line for line in lines if not line.startswith("Staging: "))
        return done

    def by_mlflow(self, verb: str, fields: Mapping[str, object]) -> subprocess.CompletedProcess[str]:
        """Run a verb to completion with `mlflow run`, which passes every parameter through a shell."""
        words = [word for name, value in fields.items() for word in ("-P", f"{name}={value}")]
        options = ["-e", verb, "--env-manager", "local", "--experiment-name", "q", *words]
        return subprocess.run(
            [sys.executable, "-m", "mlflow", "run", str(ROOT), *options],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=560,
        )

    def start(self, verb: str, fields: Mapping[str, object]) -> subprocess.Popen[str]:
        """Start a verb."""
        return subprocess.Popen(
            self.command(verb, fields),
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def command(self, verb: str, fields: Mapping[str, object]) -> list[str]:
        """Return the words of the command."""
        words = [word for name, value in fields.items() for word in (f"--{name}", str(value))]
        return [sys.executable, "-m", "experiments", verb, *words]

    def jobs(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `jobs` with these arguments, without a terminal."""
        command = [*self.command("jobs", {}), *words]
        return subprocess.run(
            command, cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )

    def runs(self, kind: str = "job") -> list[Run]:
        """Return the runs of a kind, oldest first."""
        client = MlflowClient(self.uri)
        ids = [experiment.experiment_id for experiment in client.search_experiments()]
        matches = client.search_runs(ids, f"tags.\"platform.kind\" = '{kind}'", order_by=["attributes.start_time ASC"])
        return list(matches)


def text(done: subprocess.CompletedProcess[str]) -> str:
    """Return the standard output of a command without line breaks, which depend on the lengths of figures."""
    return " ".join(done.stdout.split())


@pytest.fixture
def command_line(tracking_uri: str, tmp_path: Path) -> CommandLine:
    """The command line on a SQLite store."""
    return CommandLine(tmp_path, tracking_uri)


@pytest.fixture
def reviews(tmp_path: Path) -> dict[str, object]:
    """Fields of a small experiment on files with awkward names, labels and texts."""
    folder = tmp_path / "dätä 'einfach' \"doppelt\" $HOME `x`"
    folder.mkdir()
    good, bad = "gut & schön", 'schlecht – "nie"'
    lines = [
        f"das war wirklich {'wunderbar' if n % 2 else 'furchtbar'} {n}\t{good if n % 2 else bad}" for n in range(80)
    ]
    (folder / "träin.tsv").write_text("Text der Kritik\tNote\n" + "\n".join(lines[:64]) + "\n")
    (folder / "vali dation.tsv").write_text("Text der Kritik\tNote\n" + "\n".join(lines[64:]) + "\n")
    return {
        "data.train": folder / "träin.tsv",
        "data.validation": folder / "vali dation.tsv",
        "data.columns.text": "Text der Kritik",
        "data.columns.label": "Note",
        "max_length": 32,
        "bucket_lengths": "16,32",
        "base_learning_rate": 1e-4,
        "base_batch_size": 32,
        "batch_size": 8,
        "epochs": 1,
        "logging_steps": 1,
        "warmup_samples": 0,
        "save_model": "false",
        "compare.check": "off",
        **TINY,
    }


@pytest.fixture
def pretrained_reviews(reviews: dict[str, object]) -> dict[str, object]:
    """Fields of the same experiment with a pretrained model of 87 MiB, which learns from 64 rows."""
    return {name: value for name, value in reviews.items() if name not in TINY}
