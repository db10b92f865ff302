"""Where the contract suite runs: one class a service, each able to stage a script and to ask for a job."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Protocol

from training.jobspec import JobSpec
from training.request import build
from training.services.local import LocalService
from training.services.protocol import Request, Service


class Place(Protocol):
    """A service with somewhere to put sources and data."""

    service: Service

    def request(self, script: str, **fields: Any) -> Request:
        """Return the request for a job that runs this Python text as train.py; `fields` are those of JobSpec."""

    def again(self) -> Service:
        """Return the same service as another process would open it."""

    def folder(self, name: str, files: dict[str, str]) -> str:
        """Return the URI of a folder with these files."""

    def has_processes(self, job_name: str) -> bool:
        """Return whether any process of the job is left."""


class LocalPlace:
    """The local service in a folder whose name is awkward."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / 'wörk it\'s "here" 100%'
        self.root.mkdir()
        self.service = LocalService(self.root)

    def request(self, script: str, **fields: Any) -> Request:
        source = self.folder("source", {"train.py": textwrap.dedent(script)})
        given = {"name": "job", "hyperparameters": {}, "channels": {}} | fields
        environment = {"TRAINFARE_CORES": "1", "TRAINFARE_STOP_GRACE_SECONDS": "1"} | given.pop("environment", {})
        output = (self.root / "output").as_uri()
        return build(JobSpec(source_uri=source, output_uri=output, environment=environment, **given))

    def again(self) -> LocalService:
        return LocalService(self.root)

    def folder(self, name: str, files: dict[str, str]) -> str:
        number = len(list(self.root.glob(f"{name}-*")))
        path = self.root / f"{name}-{number}"
        path.mkdir()
        for file, text in files.items():
            (path / file).write_text(text, encoding="utf-8")
        return path.as_uri()

    def job_folder(self, job_name: str = "job") -> Path:
        return self.root / "jobs" / job_name

    def has_processes(self, job_name: str) -> bool:
        from training.services.processes import marked

        return bool(marked(str(self.job_folder(job_name).resolve() / "opt" / "ml")))
