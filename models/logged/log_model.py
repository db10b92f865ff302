"""The model of one job's run, logged once: whoever comes again finds what an earlier try has left.

Where the tracking server knows logged models (MLflow 3), the model is one, named `model`, so that `models:/m-...` and
`runs:/RUN/model` lead to it; on an older server it is an artifact of the run, in the folder `model`.

Where artifacts lie on this machine, the job's artifact is unpacked straight into its place there: a second copy on the
way would take as long again, and as much disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mlflow.entities import LoggedModel, LoggedModelOutput, LoggedModelStatus, Run

from models.logged import flavor
from models.logged.checkpoint import NoModel, is_needed, read_checkpoint
from models.logged.locks import logging_lock
from models.logged.model_folder import new_unfinished
from tracking.groups.planned_job import MODEL_ID, PlannedJob
from tracking.server.errors import is_refusal, is_unknown_call
from tracking.server.store import Store
from training.contract.errors import ServiceError, TrackingError, Unreachable
from training.contract.service import Service
from training.services.artifact import unpack

NAME = "model"
"""Name of the logged model, and its path in its run."""
MODEL_ARTIFACT = "platform.model_artifact"
"""Tag of a run whose model is an artifact of it: `runs:/RUN/model`."""
FAILURE = "platform.model_failure"
TRIES = 3
"""Attempts to read an artifact from a service whose connection breaks."""


@dataclass(frozen=True, kw_only=True)
class Logged:
    """Result of logging a model."""

    uri: str
    """`models:/m-...`, or `runs:/RUN/model`."""
    size_bytes: int
    """Bytes read from the job's artifact."""


def is_logged(run: Run) -> bool:
    """Return whether a run has its model."""
    return MODEL_ID in run.data.tags or MODEL_ARTIFACT in run.data.tags


def log_model(store: Store, service: Service, planned: PlannedJob, run_id: str, scratch: Path) -> Logged | None:
    """Log the model that a completed job left at `platform.model_uri`, and tag its run; None where it has it by now.

    `scratch` is the state's folder of models: there another command of this machine that logs the same model is waited
    for, and the model is built where artifacts are not on this machine. Raises NoModel where the artifact holds none,
    ServiceError, TrackingError, OSError.
    """
    with logging_lock(scratch, run_id):
        run = store.call(store.client.get_run, run_id)
        return None if is_logged(run) else _log(store, service, planned, run, scratch)


def _log(store: Store, service: Service, planned: PlannedJob, run: Run, scratch: Path) -> Logged:
    model, is_new = _open(store, run)
    location = model.artifact_location if model else None
    with _workplace(location, scratch) as folder:
        try:
            size_bytes = _build(service, planned, run, model, folder)
            if model is None:
                store.call(store.client.log_artifacts, run.info.run_id, str(folder), NAME)
            elif _local(location) is None:
                store.call(store.client.log_model_artifacts, model.model_id, str(folder))
        except (NoModel, ServiceError, TrackingError, OSError) as error:
            # Where the server does not answer, the next try goes on with what there is.
            if not isinstance(error, TrackingError) or is_refusal(error):
                _give_up(store, model if is_new else None, folder)
            raise
    uri = f"runs:/{run.info.run_id}/{NAME}" if model is None else f"models:/{model.model_id}"
    _conclude(store, run, model, uri)
    return Logged(uri=uri, size_bytes=size_bytes)


def _open(store: Store, run: Run) -> tuple[LoggedModel | None, bool]:
    """Return the run's logged model, and whether it was made just now; None where the server knows no such thing.

    One that was there is an earlier try's, or is being written on another machine.
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
        # SageMaker's server answers 403 to calls that it does not know.
        if is_unknown_call(error.__cause__) or store.uri.startswith("arn:"):
            return None, False
        raise
    return model, is_new


def _build(service: Service, planned: PlannedJob, run: Run, model: LoggedModel | None, folder: Path) -> int:
    """Build an MLflow model of the job's artifact in `folder`, and return the artifact's bytes."""
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
    about = {"job": planned.spec.name, "artifact": uri, "trained_with": run.data.tags.get("platform.versions", "")}
    identity = {"model_id": model.model_id, "model_uuid": model.model_id} if model else {}
    place = model.artifact_location if model else NAME
    flavor.write(folder, checkpoint, planned.model, about, run_id=run.info.run_id, artifact_path=place, **identity)
    return size_bytes


def _give_up(store: Store, model: LoggedModel | None, folder: Path) -> None:
    """Delete the files and the new MLflow entry of a model that could not be built."""
    shutil.rmtree(folder, ignore_errors=True)
    if model is not None:
        with suppress(TrackingError):
            store.call(store.client.delete_logged_model, model.model_id)


def _conclude(store: Store, run: Run, model: LoggedModel | None, uri: str) -> None:
    """Mark the model as ready and link it to the run. The tag is written last."""
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
def _workplace(location: str | None, scratch: Path) -> Iterator[Path]:
    """Yield the folder in which the model is built: its final location, if that is on this machine.

    An incomplete model stays there. MLflow does not list it, and the next attempt starts again.
    """
    if (own := _local(location)) is not None:
        yield own
        return
    folder = new_unfinished(scratch)
    try:
        yield folder / NAME
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _local(location: str | None) -> Path | None:
    """Return the path of an artifact location on this machine; None for any other."""
    if not location:
        return None
    parts = urlsplit(location)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path) if parts.scheme else location)
