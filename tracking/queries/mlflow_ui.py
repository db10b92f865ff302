"""Open MLflow's UI: choose the experiment to show, and start a server for a local database."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mlflow import get_tracking_uri
from mlflow.entities import Run

from tracking.queries.job_tables import all_experiment_ids, experiment_named, tagged
from tracking.server.database import database_file
from tracking.server.store import Store
from training.contract.errors import InputError, TrackingError
from training.contract.plain_text import without_secrets

HOST, PORT = "127.0.0.1", 5000
LOCAL = f"http://{HOST}:{PORT}"
"""Default address of MLflow's UI on the user's machine."""
_PAUSE_SECONDS = 0.2


def run_table(address: str, experiment_id: str, group: str | None = None) -> str:
    """Return the address of an experiment's runs, or of a group's jobs, in the UI at `address`.

    Of a managed server's ARN, return a description.
    """
    path = f"/{_table_path(experiment_id, group)}"
    if address.startswith("arn:"):
        return f"{address}, opened from SageMaker Studio, then {path}"
    return address.rstrip("/") + path


def job_charts(experiment_id: str, group: str) -> str:
    """Return the address, within MLflow's UI, of the charts that compare the jobs of a group."""
    return f"{_table_path(experiment_id, group)}&compareRunsMode=CHART"


def _table_path(experiment_id: str, group: str | None) -> str:
    # Without the workflow type the UI opens on its pages for traces.
    path = f"#/experiments/{experiment_id}/runs?workflowType=machine_learning"
    return f"{path}&viewStateShareKey={group}" if group else path


def require_database() -> None:
    """Raise `InputError` if the tracking store is a missing SQLite file, because MLflow would create it."""
    path = database_file(get_tracking_uri())
    if path and not path.exists():
        raise InputError(
            f"the tracking database {path} does not exist. Run `trainfare compare`, which creates it, or go to the "
            "folder in which you ran trainfare."
        )


def experiment_to_show(store: Store, name: str | None) -> tuple[str, Run | None]:
    """Return the id of the MLflow experiment that the UI shows first, and the run of its newest group, if any.

    It is the one with the newest jobs of the experiment file `name` (with or without folder and suffix), else the one
    called `name`. Without `name` it is the one with the newest jobs. Raises `InputError` if the experiment does not
    exist, or if the store has no jobs.
    """
    experiments, stem = store.call(all_experiment_ids, store.client), Path(name or "").stem
    if newest := _newest_group(store, experiments, **({"experiment": stem} if stem else {})):
        return str(newest.info.experiment_id), newest
    if name is None:
        raise InputError(f"the tracking store {store.uri} has no jobs yet. Run some with `make compare`.")
    experiment_id = str(experiment_named(store.client, name, stem).experiment_id)
    return experiment_id, _newest_group(store, [experiment_id])


def serve(store: Store, log: Path, ready: Callable[[str], None]) -> None:
    """Run `mlflow ui` on the store's database until it ends or a signal raises an exception; leave no process behind.

    Calls `ready` with the server's address when it answers. The port is 5000, or another free one. The server's output
    goes to `log`. Raises `TrackingError` if the server ends by itself.
    """
    port = _free_port()
    command = [sys.executable, "-m", "mlflow", "ui", "--host", HOST, "--port", str(port), "--workers", "1"]
    # Passed in the environment: the address may contain a password, and all users can read a command line.
    address = {"MLFLOW_BACKEND_STORE_URI": str(store.client.tracking_uri)}
    settings = {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # not needed, and would start more processes
        # Import nothing from the current folder, which uvicorn would make its app folder.
        "PYTHONSAFEPATH": "1",
        "UVICORN_APP_DIR": str(Path(sys.executable).parent),
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            env={**os.environ, **address, **settings},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        if _wait_until_ready(process, f"http://{HOST}:{port}"):
            ready(f"http://{HOST}:{port}")
        code = process.wait()
    finally:  # the server only reads, and its database survives a kill
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    last = without_secrets(lines[-1], str(store.client.tracking_uri)) if lines else "no output"
    raise TrackingError(f"`mlflow ui` ended with exit status {code}: {last} (log: {log})")


def _newest_group(store: Store, experiment_ids: list[str], **tags: str) -> Run | None:
    query, order = tagged(kind="group", **tags), ["attributes.start_time DESC"]
    found = store.call(store.client.search_runs, experiment_ids, query, order_by=order, max_results=1)
    return next(iter(found), None)


def _free_port() -> int:
    for port in (PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was just released is free
            with suppress(OSError):
                probe.bind((HOST, port))
                return int(probe.getsockname()[1])
    raise TrackingError(f"no port of {HOST} is free for MLflow's UI.")


def _wait_until_ready(process: subprocess.Popen[bytes], address: str) -> bool:
    """Return True once the server answers, or False once it has ended."""
    while process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=2):
            return True
        time.sleep(_PAUSE_SECONDS)
    return False
