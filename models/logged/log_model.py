"""Log the model of one job's run, once. A repeated call continues from what an interrupted one left.

If the tracking server supports logged models (MLflow 3), the model becomes a logged model with the name `model`, which
`models:/m-...` and `runs:/RUN/model` both refer to. On an older server, it becomes an artifact of the run, in the
folder `model`.

If MLflow's artifacts are on this machine, the job's artifact is unpacked directly into its final folder. A temporary
copy would double the time and the disk space.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mlflow.entities import LoggedModel, LoggedModelOutput, LoggedModelStatus, Run

from models.loading.evaluation import evaluation_of
from models.logged import flavor
from models.logged.checkpoint import NotServable, is_needed, read_checkpoint
from models.logged.locks import logging_lock
from models.logged.model_folder import new_unfinished
from tracking.groups.planned_job import MODEL_ID, PlannedJob
from tracking.server.errors import is_refusal, is_unknown_call
from tracking.server.store import Store
from training.contract.errors import ServiceError, TrackingError, Unreachable
from training.contract.service import Service
from training.services.artifact import unpack

NAME = "model"
"""Name of the logged model, and its artifact path in the run."""
MODEL_ARTIFACT = "platform.model_artifact"
"""Tag of a run whose model is a run artifact: `runs:/RUN/model`."""
FAILURE = "platform.model_failure"
TRIES = 3
"""Attempts to read an artifact if the connection to the service breaks."""


@dataclass(frozen=True, kw_only=True)
class Logged:
    """Result of logging a model."""

    uri: str
    """`models:/m-...`, or `runs:/RUN/model`."""
    size_bytes: int
    """Bytes read from the job's artifact."""


def is_logged(run: Run) -> bool:
    """Return whether the model of a run was logged."""
    return MODEL_ID in run.data.tags or MODEL_ARTIFACT in run.data.tags


def log_model(store: Store, service: Service, planned: PlannedJob, run_id: str, scratch: Path) -> Logged | None:
    """Log the model that a completed job left at `platform.model_uri`, and tag its run.

    Returns None if a different command has logged it in the meantime. `scratch` is the state folder's folder of models.
    It has the lock against other commands on this machine that log the same model. If MLflow's artifacts are not on
    this machine, the model is built there. Raises NotServable if the artifact has no usable model; ServiceError,
    TrackingError, OSError.
    """
    with logging_lock(scratch, run_id):
        run = store.call(store.client.get_run, run_id)
        return None if is_logged(run) else _log(store, service, planned, run, scratch)


def _log(store: Store, service: Service, planned: PlannedJob, run: Run, scratch: Path) -> Logged:
    model, is_new = _open(store, run)
    location = model.artifact_location if model else None
    with _build_folder(location, scratch) as folder:
        try:
            size_bytes = _build(service, planned, run, model, folder)
            if model is None:
                store.call(store.client.log_artifacts, run.info.run_id, str(folder), NAME)
            elif _local_path(location) is None:
                store.call(store.client.log_model_artifacts, model.model_id, str(folder))
        except (NotServable, ServiceError, TrackingError, OSError) as error:
            # If the server did not answer, keep the files and the entry: the next attempt continues from them.
            if not isinstance(error, TrackingError) or is_refusal(error):
                _discard(store, model if is_new else None, folder)
            raise
    uri = f"runs:/{run.info.run_id}/{NAME}" if model is None else f"models:/{model.model_id}"
    _finish(store, run, model, uri)
    return Logged(uri=uri, size_bytes=size_bytes)


def _open(store: Store, run: Run) -> tuple[LoggedModel | None, bool]:
    """Return the run's logged model, and whether this call created it. None if the server has no logged models.

    An existing one comes from an earlier attempt, or is being written on a different machine.
    """
    client, info = store.client, run.info
    is_new = False

    def existing() -> LoggedModel | None:
        matches = client.search_logged_models([info.experiment_id], f"source_run_id = '{info.run_id}'")
        own = [each for each in matches if each.name == NAME]
        return min(own, key=lambda each: (each.creation_timestamp, each.model_id), default=None)

    def create() -> LoggedModel:
        nonlocal is_new
        tags = {"platform.job_name": run.data.tags.get("platform.job_name", "")}
        made = client.create_logged_model(
            info.experiment_id, name=NAME, source_run_id=info.run_id, params=run.data.params, tags=tags
        )
        is_new = True
        return made

    try:
        model = store.call(existing) or store.create(create, existing=existing)
    except TrackingError as error:
        # SageMaker's tracking server answers 403 to unknown calls.
        if is_unknown_call(error.__cause__) or store.uri.startswith("arn:"):
            return None, False
        raise
    return model, is_new


def _build(service: Service, planned: PlannedJob, run: Run, model: LoggedModel | None, folder: Path) -> int:
    """Build an MLflow model from the job's artifact in `folder`, and return the bytes read."""
    assert planned.model is not None
    uri = run.data.tags["platform.model_uri"]
    for tries_left in reversed(range(TRIES)):
        shutil.rmtree(folder, ignore_errors=True)
        (folder / flavor.WEIGHTS).mkdir(parents=True)
        try:
            with service.open_model(uri) as archive:
                size_bytes = unpack(
                    archive, folder / flavor.WEIGHTS, archive_name=f"the artifact {uri}", is_selected=is_needed
                )
            break
        except Unreachable:
            if not tries_left:
                raise
    checkpoint = read_checkpoint(folder / flavor.WEIGHTS)
    metadata = {"job": planned.spec.name, "artifact": uri, "trained_with": run.data.tags.get("platform.versions", "")}
    identity = {"model_id": model.model_id, "model_uuid": model.model_id} if model else {}
    place = model.artifact_location if model else NAME
    evaluation = evaluation_of(run.data.params, checkpoint.task)
    names = {"run_id": run.info.run_id, "artifact_path": place, **identity}
    flavor.write(folder, checkpoint, planned.model, metadata, evaluation, **names)
    return size_bytes


def _discard(store: Store, model: LoggedModel | None, folder: Path) -> None:
    """Delete the files and the new MLflow entry of a model that could not be built."""
    shutil.rmtree(folder, ignore_errors=True)
    if model is not None:
        with suppress(TrackingError):
            store.call(store.client.delete_logged_model, model.model_id)


def _finish(store: Store, run: Run, model: LoggedModel | None, uri: str) -> None:
    """Mark the model as ready and link it to the run. The run's tag is written last."""
    client, run_id = store.client, run.info.run_id
    if model is None:
        store.tag(run_id, {MODEL_ARTIFACT: uri})
    else:
        if model.status != LoggedModelStatus.READY:
            store.call(client.finalize_logged_model, model.model_id, LoggedModelStatus.READY)
        outputs = run.outputs.model_outputs if run.outputs else []
        if model.model_id not in {each.model_id for each in outputs}:
            store.call(client.log_outputs, run_id, [LoggedModelOutput(model.model_id, step=0)])
        store.tag(run_id, {MODEL_ID: model.model_id})
    if FAILURE in run.data.tags:
        store.call(client.delete_tag, run_id, FAILURE)


@contextmanager
def _build_folder(location: str | None, scratch: Path) -> Iterator[Path]:
    """Yield the folder in which to build the model: its final location, if that is on this machine.

    If building is interrupted, the incomplete model stays there. MLflow does not list it; the next attempt replaces it.
    """
    if (own := _local_path(location)) is not None:
        yield own
        return
    folder = new_unfinished(scratch)
    try:
        yield folder / NAME
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _local_path(location: str | None) -> Path | None:
    """Return the path of an artifact location on this machine; None if it is elsewhere."""
    if not location:
        return None
    parts = urlsplit(location)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path) if parts.scheme else location)
