"""A group of small jobs, started by our command line, and the notes that its allocations and scripts wrote."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.support.services.slurm_cluster import SlurmCluster
from tracking.recording.run_artifacts import ROOT

SCRIPT = ROOT / "benchmarks" / "slurm" / "script"


@dataclass(frozen=True, kw_only=True)
class Note:
    """A line that the shell of an allocation (`allocation`) or the script (`script`, `step`, `end`) wrote."""

    kind: str
    job: str
    attempt: str
    """Id of Slurm's job and number of its restarts, with a full stop between them."""
    time: float
    """Seconds since the epoch."""
    pid: int
    """The process that wrote the line. That of an allocation becomes the supervisor of the job."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """One command in a folder of its own, with its state folder and its tracking database."""

    folder: Path
    cluster: SlurmCluster
    verb: str = "compare"
    service: str = "slurm"
    jobs: int = 1
    """Even for `compare`, which has two arms."""
    parallel: int = 1
    seconds: float = 4.0
    """Seconds that a script takes, without its start."""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.folder / 'mlflow.db'}"

    @property
    def command(self) -> Sequence[str]:
        """Write the experiment, and return the command that runs it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        note = f'echo "allocation $SLURM_JOB_NAME $BENCH_ATTEMPT $(date +%s.%N) $$" >> {shlex.quote(str(self._notes))}'
        fields = {
            "script": {
                "source": str(SCRIPT),
                "entry_point": "beat.py",
                "hyperparameters": {
                    "notes": str(self._notes),
                    "seconds": self.seconds,
                    "batch": "$batch_size",
                    "seed": "$seed",
                },
                "metrics": {name: f"{name} ([0-9.]+)" for name in ("step", "samples", "loss", "eval_accuracy")},
            },
            "service": self.service,
            "machine": {"cores": 1},
            "compare": {
                "arms": [{"batch_size": 16}, {"batch_size": 64}],
                "repeats": max(1, self.jobs // 2),
                "stop": "never",
                "parallel": self.parallel,
            },
        }
        if self.service == "slurm":
            attempt = "export BENCH_ATTEMPT=$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}"
            fields["slurm"] = {"prologue": f"{attempt}\n{note}"}
        path = self.folder / "beat.yaml"
        path.write_text(yaml.safe_dump(fields))
        return [sys.executable, "-m", "experiments", self.verb, "--experiment", str(path)]

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "TRAINFARE_HOME": str(self.home),
            "MLFLOW_TRACKING_URI": self.uri,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "HF_HUB_OFFLINE": "1",
        }
        return {**os.environ, **self.cluster.environment, **own}

    def start(self) -> subprocess.Popen[bytes]:
        """Start the command. Its output is appended to `launcher.txt`."""
        command = self.command
        with self.output.open("ab") as output:
            return subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=output, stderr=output)

    @property
    def output(self) -> Path:
        return self.folder / "launcher.txt"

    @property
    def _notes(self) -> Path:
        return self.folder / "notes.txt"

    def runs(self, kind: str) -> Sequence[Run]:
        """Return the runs of a kind, `group` or `job`."""
        client = MlflowClient(self.uri)
        ids = [experiment.experiment_id for experiment in client.search_experiments()]
        return list(client.search_runs(ids, f"tags.\"platform.kind\" = '{kind}'", max_results=1000))

    def notes(self) -> list[Note]:
        """Return the notes, oldest first."""
        text = self._notes.read_text() if self._notes.exists() else ""
        words = [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]
        return [
            Note(kind=kind, job=job, attempt=attempt, time=float(at), pid=int(pid))
            for kind, job, attempt, at, pid in words
        ]
