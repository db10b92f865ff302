"""MLflow's UI on the tracking store in use: which experiment it opens on, and a server of its own for a database."""

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
from urllib.parse import quote, unquote, urlencode

from mlflow import get_tracking_uri
from mlflow.entities import Experiment, Run

from tracking.queries.job_tables import quoted
from tracking.server.errors import without_credentials
from tracking.server.store import Store
from training.contract.errors import InputError, TrackingError, nearest

HOST, PORT = "127.0.0.1", 5000
LOCAL = f"http://{HOST}:{PORT}"
"""Where MLflow's UI is on a machine of one's own."""
_PAUSE_SECONDS = 0.2
_END_SECONDS = 10.0
"""What the server has to end by itself before it is killed."""


def run_table(address: str, experiment_id: str) -> str:
    """Return where the UI at `address` shows an experiment's runs, in words for a managed server's ARN."""
    # Without the workflow type the UI opens on its pages for traces.
    place = f"/#/experiments/{experiment_id}/runs?workflowType=machine_learning"
    if address.startswith("arn:"):
        return f"{address}, opened from SageMaker Studio, then {place}"
    return address.rstrip("/") + place


def job_charts(experiment_id: str, group: str) -> str:
    """Return where MLflow's UI draws the metrics of a group's jobs beside each other, as an address within the UI.

    By arm: where runs are ordered by their start, the UI puts them under their parents, and draws these.
    """
    where = f"tags.\"platform.group\" = '{group}' and tags.\"platform.kind\" = 'job'"
    order = {"orderByKey": "tags.`platform.arm`", "orderByAsc": "true"}
    asked = {"workflowType": "machine_learning", "compareRunsMode": "CHART", "searchFilter": where, **order}
    return f"#/experiments/{experiment_id}/runs?{urlencode(asked, quote_via=quote)}"


def require_database() -> None:
    """Raise `InputError` where the tracking store is a SQLite file that does not exist: MLflow would make one."""
    uri = get_tracking_uri().partition("?")[0]
    path = Path(unquote(uri.removeprefix("sqlite:///")))
    if uri.startswith("sqlite:///") and not path.exists():
        raise InputError(f"there is no tracking database {path}: `make compare`, or any other verb, makes one.")


def experiment_to_show(store: Store, name: str | None) -> str:
    """Return the id of the experiment with the newest jobs of `name`, of the one called `name`, else of the newest.

    `name` is that of an experiment file, with or without its folder and ending, or of an experiment in MLflow. Raises
    `InputError` for one that the store does not hold, and for a store without any jobs.
    """
    found: list[Experiment] = store.call(store.client.search_experiments)
    ids, stem = [each.experiment_id for each in found], Path(name).stem if name else None
    if newest := _newest_groups(store, ids, f" and tags.`platform.experiment` = {quoted(stem)}" if stem else "", 1):
        return str(newest[0].info.experiment_id)
    if named := next((each for each in found if each.name in {name, stem}), None):
        return str(named.experiment_id)
    if name is None:
        raise InputError(f"the tracking store {store.uri} holds no jobs yet: `make compare` runs some.")
    groups = _newest_groups(store, ids, "", 1000)
    known = {each.name for each in found} | {run.data.tags.get("platform.experiment", "") for run in groups}
    raise InputError(f"the tracking store {store.uri} holds no experiment '{name}'.{nearest(str(stem), known)}")


def serve(store: Store, log: Path, ready: Callable[[str], None]) -> None:
    """Run `mlflow ui` on the store's database until it ends, or until a signal raises here, and leave nothing running.

    Calls `ready` with its address, on port 5000 or another one that is free, once it answers. What it says goes to
    `log`. Raises `TrackingError` when it ends by itself.
    """
    port = _free_port()
    command = [sys.executable, "-m", "mlflow", "ui", "--host", HOST, "--port", str(port), "--workers", "1"]
    # By the environment: an address may hold a password, and a command line is everybody's to read.
    address = {"MLFLOW_BACKEND_STORE_URI": str(store.client.tracking_uri)}
    settings = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # no use here, and processes of its own
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
        if _answers(process, f"http://{HOST}:{port}"):
            ready(f"http://{HOST}:{port}")
        code = process.wait()
    finally:
        _end(process)
    said = without_credentials(log.read_text("utf-8", "replace")).strip().splitlines()
    raise TrackingError(f"`mlflow ui` ended by itself with {code}: {said[-1] if said else 'no word'} (log: {log})")


def _newest_groups(store: Store, experiment_ids: list[str], more: str, most: int) -> list[Run]:
    where, order = f"tags.`platform.kind` = 'group'{more}", ["attributes.start_time DESC"]
    return list(store.call(store.client.search_runs, experiment_ids, where, order_by=order, max_results=most))


def _free_port() -> int:
    """Return 5000, or a port that the system chooses where something listens there."""
    for wanted in (PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that was just left is free
            with suppress(OSError):
                probe.bind((HOST, wanted))
                return int(probe.getsockname()[1])
    raise TrackingError(f"no port of {HOST} is free for MLflow's UI.")


def _answers(process: subprocess.Popen[bytes], address: str) -> bool:
    """Wait until the server answers; return False where it ends instead."""
    while process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=2):
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server: by its own way, then whatever is left of its processes."""
    try:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
