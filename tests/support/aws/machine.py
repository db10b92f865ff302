"""The instances of one simulated training job. Each is a container of the local service in its own folder."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.fork_server.interpreter import INTERPRETER
from training.contract.service import TERMINAL_STATUSES, Description, LogPage
from training.services.local.service import LocalService
from training.services.sagemaker.machines import device_count
from training.services.supervision import container, processes, toolkit

ON_MACHINE = Path(__file__).with_name("on_machine.py")
IMAGE = Path(__file__).with_name("image")
COMPILE_CACHE = "/tmp/compile-cache"
"""Folder of a container for what was compiled."""
IMAGE_ENTRY = ("bash", "-m", "start_with_right_hostname.sh", "train")
"""Entry point of AWS's training images (`ENTRYPOINT` of deep-learning-containers' Dockerfiles), and the argument that
SageMaker adds."""
LAUNCHERS = ("sagemaker_torch_distributed_enabled", "sagemaker_pytorch_ddp_enabled")
"""Both start a process on each GPU of each instance. The images use MPI for the second; here torchrun starts both."""


class Machine:
    """One instance of a job."""

    def __init__(self, root: Path, job_name: str, at: int) -> None:
        self.at, self.host = at, f"algo-{at + 1}"
        self.root = root if at == 0 else root / self.host
        self.checkpoints = self.root / "checkpoints"
        self._name = job_name
        self._service = LocalService(self.root, self.root / "slots")  # each instance has cores of its own
        self._sent: str | None = None

    @property
    def base(self) -> Path:
        """Folder that stands for `/opt/ml` on this instance."""
        return self.root / "jobs" / self._name / "opt" / "ml"

    def start(self, request: Mapping[str, Any], instance_type: str, machines: int, port: int) -> None:
        """Start this instance's part of the job. `request` has local paths. Raises InputError."""
        own = {**request, "ResourceConfig": {**request["ResourceConfig"], "InstanceType": "local", "InstanceCount": 1}}
        own |= {"OutputDataConfig": {"S3OutputPath": (self.root / "output").as_uri()}}
        if "CheckpointConfig" in request:
            own["CheckpointConfig"] = {"S3Uri": self.checkpoints.as_uri()}
        own["Environment"] = {name: self._relocated(value) for name, value in request.get("Environment", {}).items()}
        own["HyperParameters"] = hyperparameters = self._with_source(request["HyperParameters"])
        each = _processes(hyperparameters, instance_type)
        if machines > 1:
            spec = {"host": self.at, "hosts": machines, "port": port, "processes": each}
            spec |= {"interpreter": INTERPRETER, "program": json.loads(hyperparameters["sagemaker_program"])}
            own["Environment"] |= {"EMULATED_MACHINE": json.dumps(spec)}
            own["HyperParameters"] = self._with_own_program(hyperparameters)
        elif each:
            hyperparameters["sagemaker_torch_distributed_enabled"] = "true"
            hyperparameters["sagemaker_mpi_num_of_processes_per_host"] = json.dumps(each)
        python = own["Environment"].get(container.PYTHON_VARIABLE, sys.executable)
        own["Environment"] |= _container(request["AlgorithmSpecification"], python)
        self._service.create(own)

    def describe(self) -> Description:
        """Return the local service's description, or an empty one before the start."""
        return self._service.describe(self._name) if self.base.parents[1].exists() else {}

    def stop(self) -> None:
        self._service.stop(self._name)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process of the job."""
        for process in processes.marked_processes(str(self.base.resolve())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def new_lines(self) -> Iterator[LogPage]:
        """Yield the pages that are new in the log."""
        while (page := self._service.logs(self._name, self._sent)).lines:
            self._sent = page.cursor
            yield page

    def lines(self) -> Sequence[str]:
        return self._service.logs(self._name).lines if self.describe() else []

    @property
    def artifact(self) -> Path:
        """Path of the packed model, which may not exist."""
        return self.root / "output" / self._name / "output" / "model.tar.gz"

    def _relocated(self, value: str) -> str:
        if value == COMPILE_CACHE:
            return f"{self.base}{value}"  # each instance has an empty disk
        return str(self.base) + value.removeprefix(container.ROOT) if value.startswith(container.ROOT) else value

    def _with_source(self, hyperparameters: dict[str, str]) -> dict[str, str]:
        """Return the hyperparameters with the source unpacked: the local service takes folders."""
        archive = toolkit.local_path(json.loads(hyperparameters["sagemaker_submit_directory"]))
        with tarfile.open(archive) as tar:
            tar.extractall(self._source, filter="data")
        return hyperparameters | {"sagemaker_submit_directory": json.dumps(self._source.as_uri())}

    def _with_own_program(self, hyperparameters: dict[str, str]) -> dict[str, str]:
        """Return the hyperparameters that run `on_machine.py`, which emulates the toolkit on several machines."""
        shutil.copy(ON_MACHINE, self._source)
        return hyperparameters | {"sagemaker_program": json.dumps(ON_MACHINE.name)}

    @property
    def _source(self) -> Path:
        return self.root / "source-of-machine"


def _container(algorithm: Mapping[str, Any], python: str) -> dict[str, str]:
    """Return the variables that run a command of `python` in a container with the entry point of a request."""
    entry = IMAGE_ENTRY
    if "ContainerEntrypoint" in algorithm:
        entry = (*algorithm["ContainerEntrypoint"], *algorithm.get("ContainerArguments", ()))
    return {
        container.PYTHON_VARIABLE: str(IMAGE / "interpreter"),
        "EMULATED_PYTHON": python,
        "EMULATED_INTERPRETER": INTERPRETER,
        "EMULATED_ENTRY": json.dumps(entry),
    }


def _processes(hyperparameters: dict[str, str], instance_type: str) -> int:
    """Remove the launcher's flags, and return the number of processes that it starts; 0 without a launcher."""
    flags = [hyperparameters.pop(name) for name in LAUNCHERS if name in hyperparameters]
    return (device_count(instance_type) or 1) if "true" in flags else 0


def role_access(s3: Any) -> dict[str, str]:
    """Return the variables with which a container reaches the account as its role."""
    keys = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLEROLE", "AWS_SECRET_ACCESS_KEY": "example"}
    return {**keys, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": str(s3.meta.endpoint_url)}


def job_description(descriptions: Sequence[Description]) -> Description:
    """Return the description of the job from those of its machines.

    The job ends when all machines have ended. Its outcome is that of the machine that failed first, because the others
    fail later for lack of it.
    """
    started = [each for each in descriptions if each]
    running = [each for each in started if each["TrainingJobStatus"] not in TERMINAL_STATUSES]
    failed = [each for each in started if each["TrainingJobStatus"] == "Failed"]
    failed.sort(key=lambda each: each["LastModifiedTime"])
    return next(iter((*running, *failed, *started)), {})


def merged(artifacts: Sequence[Path], into: Path) -> Path | None:
    """Return one archive of the models of all machines, as SageMaker packs them, or None without models."""
    existing = [path for path in artifacts if path.exists()]
    if len(existing) < 2:
        return existing[0] if existing else None
    with tarfile.open(into, "w:gz") as archive:
        for path in existing:
            with tarfile.open(path) as part:
                for member in part.getmembers():
                    archive.addfile(member, part.extractfile(member) if member.isfile() else None)
    return into
