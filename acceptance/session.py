"""Trainfare's commands, run as a user runs them: each in a process of its own, with its output in a file."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from acceptance.options import Options

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that has ended."""

    code: int
    output: str


@dataclass(frozen=True, kw_only=True)
class Started:
    """A command that may still run."""

    process: subprocess.Popen[bytes]
    log: Path

    def result(self) -> Command:
        """Wait for the end, and return the exit code and the output."""
        code = self.process.wait()
        return Command(code=code, output=self.log.read_text("utf-8", errors="replace"))


class Session:
    """Commands with one state folder and one tracking database, both in the acceptance's folder."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.tracking_uri = f"sqlite:///{options.folder.resolve() / 'mlflow.db'}"
        self._commands = 0

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the commands: those of this process, except for the state and the tracking server."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
        clean |= {"MLFLOW_TRACKING_URI": self.tracking_uri, "TRAINFARE_HOME": str(self.options.folder / "state")}
        return clean | ({"AWS_REGION": self.options.region} if self.options.region else {})

    def run(self, *words: str, variables: Mapping[str, str] | None = None) -> Command:
        """Run a command to its end."""
        with self.start(*words, variables=variables) as started:
            return started.result()

    @contextmanager
    def start(self, *words: str, variables: Mapping[str, str] | None = None) -> Iterator[Started]:
        """Start a command. If this block fails or is interrupted, the command is ended.

        A command in a process group of its own does not get the terminal's Ctrl-C: it is ended here by SIGTERM. Then
        `train` stops its jobs, and a deployment deletes what it has created.
        """
        self._commands += 1
        log = self.options.folder / f"command-{self._commands:02}.txt"
        print(f"  $ trainfare {' '.join(words)}", flush=True)
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*self.options.program, *words],
                cwd=ROOT,
                env=self.environment | dict(variables or {}),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield Started(process=process, log=log)
        finally:
            if process.poll() is None:
                process.terminate()
                print(f"  Waiting for that command to end; its output is in {log}.", flush=True)
                process.wait()


def words_of(fields: Mapping[str, object]) -> list[str]:
    """Return the options of a command."""
    return [word for name, value in fields.items() for word in (f"--{name}", str(value))]
