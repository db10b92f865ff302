"""Fixtures of all tests: a tracking store, a real tracking server, and the shared data if present."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support.fork_server.interpreter import INTERPRETER, SHARED_VARIABLE, forking_interpreter
from tests.support.ports import free_port

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
# A server would start half a dozen processes to run jobs of its own, which nothing here has.
os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"

# uvicorn closes connections that were idle for 5 s. A request that is sent at that moment fails.
os.environ["UVICORN_TIMEOUT_KEEP_ALIVE"] = "3600"

# No test may depend on the speed of the machine. In CI, random examples are the same each time.
settings.register_profile("any speed", deadline=None, derandomize="TRAINFARE_CI" in os.environ)
settings.load_profile("any speed")

# Hundreds of processes import the same files: each file is compiled once.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# sagemaker-mlflow warns at each request to a server that is no ARN. `open_store` filters this for users; a test may
# call MLflow before any store is open.
logging.getLogger("mlflow.tracking.request_header.registry").addFilter(
    lambda record: "list index out of range" not in record.getMessage()
)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell's background job ignores Ctrl-C, and so would every process that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)

CORES = sorted(os.sched_getaffinity(0))
"""All of this machine that the tests may use."""
if "PYTEST_XDIST_WORKER" in os.environ:
    # A test starts its programs on one core, or two trainings would share every core and slow each other down.
    lane, lanes = int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.sched_setaffinity(0, CORES[lane::lanes] or CORES[lane % len(CORES) :][:1])

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
TEMPLATE_VARIABLE = "TRAINFARE_TEMPLATE_DATABASE"
"""Variable with the path of an empty MLflow database."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("aws", "tests on a real AWS account, with -m aws (docs/aws.md)")
    group.addoption("--role", metavar="ROLE", help="role of the jobs, by name or ARN; without it, they are skipped")
    group.addoption("--budget", type=float, metavar="USD", help="most that all jobs may cost")
    group.addoption("--region", help="region; by default that of the environment")
    group.addoption("--bucket", help="bucket; by default sagemaker-<region>-<account>")
    group.addoption("--prices", metavar="FILE", help="price table instead of AWS's price list")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ[SHARED_VARIABLE] = forking_interpreter()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_URI"):
        os.environ.pop(name, None)


@pytest.fixture(scope="session", autouse=True)
def _forking() -> Iterator[None]:
    """Run `sys.executable` through a fork server with preloaded packages; see `forking_interpreter`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", forking_interpreter())
        yield


@pytest.fixture(autouse=True)
def _own_slots(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the jobs of each test hold cores by themselves: jobs of other tests run at the same time."""
    monkeypatch.setenv("TRAINFARE_SLOTS", str(tmp_path_factory.getbasetemp() / f"slots-{uuid.uuid4().hex}"))


@pytest.fixture
def plain_interpreter(monkeypatch: pytest.MonkeyPatch) -> str:
    """The real interpreter, for this test and the processes that it starts."""
    monkeypatch.setattr(sys, "executable", INTERPRETER)
    return INTERPRETER


@pytest.fixture
def every_core() -> Iterator[None]:
    """All cores of the machine, for one test."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES)
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared data. Without it, tests are skipped, or fail under .ci/run."""
    if not SHARED.is_dir():
        if os.environ.get("TRAINFARE_CI"):
            pytest.fail(f"{SHARED} is absent")
        pytest.skip(f"{SHARED} is absent")
    return SHARED


@pytest.fixture(scope="session")
def _template_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty MLflow database to copy, because its migrations take seconds. `tests.faults` passes its own."""
    if TEMPLATE_VARIABLE in os.environ:
        return Path(os.environ[TEMPLATE_VARIABLE])
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def tracking_uri(_template_database: Path, tmp_path: Path) -> str:
    """A SQLite tracking store for one test."""
    path = tmp_path / "mlflow.db"
    shutil.copy(_template_database, path)
    return f"sqlite:///{path}"


MARK = "TRACKING_SERVER_FOLDER"
"""Variable by which the processes of a tracking server are known."""


class TrackingServer:
    """A real `mlflow server` on a SQLite database, which a test can halt and continue."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self.uri = f"http://127.0.0.1:{self._port}"
        self.database_uri = f"sqlite:///{folder / 'mlflow.db'}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *artifacts: str) -> None:
        """Start the server. `artifacts` are options for the artifact store, which by default is the server itself."""
        command = [forking_interpreter(), "-m", "mlflow", "server", "--workers", "1", "--port", str(self._port)]
        command += ["--backend-store-uri", self.database_uri]
        command += artifacts or ("--artifacts-destination", str(self._folder / "artifacts"))
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=os.environ | {MARK: str(self._folder)}, cwd=self._folder, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 480
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=2):
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError((self._folder / "server.log").read_text())

    def send(self, number: signal.Signals) -> None:
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if f"{MARK}={self._folder}".encode() in environment.read_bytes().split(b"\0"):
                    os.kill(int(environment.parent.name), number)

    def stop(self) -> None:
        if self._process:
            self.send(signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A simulated AWS account (`tests.support.aws`) whose jobs really run. This process is its user."""
    from tests.support.aws.account import open_account

    with open_account(tmp_path / "account") as opened:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in opened.variables.items():
            monkeypatch.setenv(name, value)
        yield opened


@pytest.fixture(scope="session")
def real_account(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The user's own AWS account, within the budget. Jobs that still run at the end are stopped."""
    from tests.support.aws.real_account import RealAccount

    option = request.config.getoption
    if not option("--role"):
        pytest.skip("needs an AWS account: give --role ROLE and --budget USD")
    if not option("--budget") or option("--budget") <= 0:
        pytest.fail(f"--budget is {option('--budget')}: it must be a number above 0, in US dollars")
    if request.config.getoption("numprocesses", None):
        pytest.fail("-n would give each worker a budget of its own: leave it out")
    fields = {name: option(f"--{name}") for name in ("role", "region", "bucket", "prices") if option(f"--{name}")}
    with pytest.MonkeyPatch.context() as patch:
        if "region" in fields:
            patch.setenv("AWS_REGION", fields["region"])
        opened = RealAccount(fields, option("--budget"))
        try:
            yield opened
        finally:
            print(f"stopped: {', '.join(opened.stop_jobs()) or 'no job was left'}")


@pytest.fixture
def tracking_server(_template_database: Path, tmp_path: Path) -> Iterator[TrackingServer]:
    """A running tracking server for one test, which may halt or stop it."""
    yield from _served(_template_database, tmp_path / "server")


@pytest.fixture(scope="session")
def shared_tracking_server(
    _template_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TrackingServer]:
    """A running tracking server for all tests that leave it unchanged, because a start takes seconds."""
    yield from _served(_template_database, tmp_path_factory.mktemp("shared") / "server")


def _served(template: Path, folder: Path) -> Iterator[TrackingServer]:
    folder.mkdir()
    shutil.copy(template, folder / "mlflow.db")
    server = TrackingServer(folder)
    server.start()
    yield server
    server.stop()
