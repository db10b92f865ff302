"""Test harnesses, one class per service. They store scripts and data, and build requests."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

import pytest

from tests.support.aws.account import BUCKET, ROLE, Account
from tests.support.aws.real_account import CPU_TYPE, LIMIT_SECONDS, RealAccount
from tests.support.services.slurm_cluster import SlurmCluster
from training.contract.job_spec import JobSpec
from training.contract.request import build
from training.contract.service import Request, Service
from training.services import registry
from training.services.local.service import LocalService
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.machines import ENTRY_POINT, arguments
from training.services.sagemaker.service import SageMakerService
from training.services.sagemaker.storage import Storage
from training.services.slurm.service import SlurmService
from training.services.supervision.processes import marked_processes


class Harness(Protocol):
    """A service with storage for sources and data."""

    service: Service
    is_remote: bool
    """True for jobs on instances that this machine cannot see, in an account with other jobs."""

    def request(self, script: str, **fields: Any) -> Request:
        """Return the request for a job that runs this Python text as train.py. `fields` are those of JobSpec."""

    def read(self, uri: str) -> bytes:
        """Return the content of an artifact."""

    def again(self) -> Service:
        """Open the same service again, like another process."""

    def folder(self, name: str, files: dict[str, str]) -> str:
        """Return the URI of a folder with these files."""

    def has_processes(self, job_name: str) -> bool:
        """Return whether any of the job's processes is still running."""


class LocalHarness:
    """The local service in a folder with spaces, quotes and other awkward characters in its name."""

    is_remote = False

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / 'wörk it\'s "here" 100%'
        self.root.mkdir()
        self.service: Service = LocalService(self.root)

    def request(self, script: str, **fields: Any) -> Request:
        source = self.folder("source", {"train.py": textwrap.dedent(script)})
        fields = {"name": "job", "hyperparameters": {}, "channels": {}} | fields
        environment = {"TRAINFARE_CORES": "1", "TRAINFARE_STOP_GRACE_SECONDS": "1"} | fields.pop("environment", {})
        output = (self.root / "output").as_uri()
        return build(JobSpec(source_uri=source, output_uri=output, environment=environment, **fields))

    def read(self, uri: str) -> bytes:
        return Path(unquote(urlparse(uri).path)).read_bytes()

    def again(self) -> Service:
        return type(self.service)(self.root)

    def folder(self, name: str, files: dict[str, str]) -> str:
        return _folder(self.root, name, files).as_uri()

    def job_folder(self, job_name: str = "job") -> Path:
        return self.root / "jobs" / job_name

    def has_processes(self, job_name: str) -> bool:
        return bool(marked_processes(str(self.job_folder(job_name).resolve() / "opt" / "ml")))


def _folder(root: Path, name: str, files: dict[str, str]) -> Path:
    path = root / f"{name}-{len(list(root.glob(f'{name}-*')))}"
    path.mkdir()
    for file, text in files.items():
        (path / file).write_text(text, encoding="utf-8")
    return path


class SageMakerHarness:
    """SageMaker's service in a simulated account with jobs that really run."""

    is_remote = False

    def __init__(self, tmp_path: Path, account: Account) -> None:
        self._account, self._root = account, tmp_path
        account.make_role()
        account.clients["s3"].create_bucket(Bucket=BUCKET)
        self._clients = Clients()
        self._storage = Storage(self._clients, BUCKET)
        self.service = self.again()

    def request(self, script: str, **fields: Any) -> Request:
        return build(self.spec(script, **fields))

    def spec(self, script: str, **fields: Any) -> JobSpec:
        folder = _folder(self._root, "source", {"train.py": textwrap.dedent(script)})
        fields = {"name": "job", "hyperparameters": {}, "channels": {}} | fields
        environment = {"TRAINFARE_CORES": "1", "TRAINFARE_STOP_GRACE_SECONDS": "1"} | fields.pop("environment", {})
        defaults = {
            "role_arn": ROLE,
            "region": self._clients.region,
            "instance_type": "ml.g4dn.xlarge",
            "capacity_retry_minutes": (0.2 / 60, 0.4 / 60),
            "image": "none",
            # As in the requests for AWS's images.
            "entry_point": ENTRY_POINT,
            "entry_arguments": arguments(),
        }
        return JobSpec(
            source_uri=self._storage.put_source(folder),
            output_uri=self._storage.uri("output"),
            environment=environment,
            **(defaults | fields),
        )

    def read(self, uri: str) -> bytes:
        location = urlparse(uri)
        response = self._clients.get("s3").get_object(Bucket=location.netloc, Key=location.path.lstrip("/"))
        return bytes(response["Body"].read())

    def again(self) -> SageMakerService:
        service = SageMakerService(Clients())
        service.pauses_seconds, service.log_delay_seconds = (0.05, 0.5), 0.5
        service.longest_delay_seconds = 3.0  # scripts of tests often print nothing
        return service

    def folder(self, name: str, files: dict[str, str]) -> str:
        return self._storage.put_channel(_folder(self._root, name, files), "data")

    def has_processes(self, job_name: str) -> bool:
        return bool(marked_processes(str(self._account.jobs.container(job_name).resolve())))


class RealHarness(SageMakerHarness):
    """SageMaker's service in a real account. The worst case of each requested job is taken from the budget."""

    is_remote = True

    def __init__(self, tmp_path: Path, account: RealAccount) -> None:
        self._real, self._root = account, tmp_path
        self._clients, self._storage = account.clients, account.context.storage
        self.service = self.again()

    def spec(self, script: str, **fields: Any) -> JobSpec:
        image = {"instance_type": CPU_TYPE, "image": self._real.cpu_image, "role_arn": self._real.context.role_arn}
        limits = {"max_run_seconds": LIMIT_SECONDS, "name": self._real.job_name(fields.pop("name", "job"))}
        spec = super().spec(script, **(image | limits | fields))
        self._real.reserve(spec)
        return spec

    def again(self) -> SageMakerService:
        return SageMakerService(self._clients)

    def has_processes(self, job_name: str) -> bool:
        """Return False: the processes of an instance cannot be seen from here."""
        return False


SERVICES = (
    *(
        pytest.param(name, marks={"sagemaker": [pytest.mark.slow], "slurm": [pytest.mark.slurm]}.get(name, []))
        for name in registry.SERVICES
    ),
    pytest.param("aws", marks=pytest.mark.aws),
)
"""Services of the contract: every service, with SageMaker in the simulated account, and a real account."""


def harness_of(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """Return the harness of the service that parametrizes a test."""
    if request.param == "sagemaker":
        return SageMakerHarness(tmp_path, request.getfixturevalue("account"))
    if request.param == "aws":
        return RealHarness(tmp_path, request.getfixturevalue("real_account"))
    if request.param == "slurm":
        return SlurmHarness(tmp_path, request.getfixturevalue("shared_cluster"), request.getfixturevalue("monkeypatch"))
    return LocalHarness(tmp_path)


class SlurmHarness(LocalHarness):
    """Slurm's service on a cluster of this machine."""

    def __init__(self, tmp_path: Path, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(tmp_path)
        for name, value in {**cluster.environment, "TRAINFARE_HOME": str(self.root)}.items():
            monkeypatch.setenv(name, value)
        self.service = self.again()

    def request(self, script: str, **fields: Any) -> Request:
        return super().request(script, **({"instance_type": "slurm:cpu"} | fields))

    def again(self) -> SlurmService:
        service = SlurmService(self.root / "slurm")
        service.pauses_seconds, service.settling_seconds = (0.05, 0.5), 1.0
        return service

    def job_folder(self, job_name: str = "job") -> Path:
        return self.root / "slurm" / "jobs" / job_name
