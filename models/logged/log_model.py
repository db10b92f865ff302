"""Log the model of one job's run, once. A repeated call continues from what an interrupted one left.

If the tracking server supports logged models (MLflow 3), the model becomes a logged model with the name `model`, which
`models:/m-...` and `runs:/RUN/model` both refer to. On an older server, it becomes an artifact of the run, in the
folder `model`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mlflow.entities import LoggedModel, LoggedModelOutput, LoggedModelStatus, Run

from models.inference.evaluation import evaluation_of
from models.logged import flavor
from models.logged.flavor import NotServable, is_needed, read_checkpoint
from models.logged.model_folder import new_unfinished
from state.locks import exclusive_lock
from tracking.groups.planned_job import MODEL_ID, ModelPlan, PlannedJob
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
Failures = (NotServable, ServiceError, TrackingError, OSError)


def is_logged(run: Run) -> bool:
    """Return whether the model of a run was logged."""
    return MODEL_ID in run.data.tags or MODEL_ARTIFACT in run.data.tags


def log_model(store: Store, service: Service, planned: PlannedJob, run_id: str, scratch: Path) -> int | None:
    """Log the model that a completed job left at `platform.model_uri`, tag its run, and return the bytes read.

    Returns None if a different command has logged it in the meantime. The model is built in `scratch`, the state
    folder's folder of models. Raises NotServable if the artifact has no usable model; ServiceError, TrackingError,
    OSError.
    """
    assert planned.model is not None
    with _lock(scratch, run_id):
        run = store.call(store.client.get_run, run_id)
        if is_logged(run):
            return None
        folder = new_unfinished(scratch)
        try:
            size_bytes = _unpack(service, run.data.tags["platform.model_uri"], folder / flavor.WEIGHTS)
            _log(store, run, planned.spec.name, planned.model, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return size_bytes


@contextmanager
def _lock(scratch: Path, run_id: str) -> Iterator[None]:
    """Let only one command on this machine log a run's model at a time. `jobs prune` ignores the file."""
    scratch.mkdir(parents=True, exist_ok=True)
    file = scratch / f".logging-{run_id}.lock"
    descriptor = exclusive_lock(file, wait=True)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)


def _unpack(service: Service, uri: str, folder: Path) -> int:
    """Unpack what is needed of a job's artifact, and return the bytes read."""
    for tries_left in reversed(range(TRIES)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            with service.open_model(uri) as archive:
                return unpack(archive, folder, archive_name=f"the artifact {uri}", is_selected=is_needed)
        except Unreachable:
            if not tries_left:
                raise
    raise AssertionError


def _log(store: Store, run: Run, job_name: str, plan: ModelPlan, folder: Path) -> None:
    """Turn the folder into an MLflow model and upload it."""
    checkpoint = read_checkpoint(folder / flavor.WEIGHTS)
    evaluation = evaluation_of(run.data.params, checkpoint.task)
    tags = run.data.tags
    metadata = {
        "job": job_name,
        "artifact": tags["platform.model_uri"],
        "trained_with": tags.get("platform.versions", ""),
    }
    model, is_new = _open(store, run)
    try:
        identity = {"model_id": model.model_id, "model_uuid": model.model_id} if model else {}
        names = {"run_id": run.info.run_id, "artifact_path": model.artifact_location if model else NAME, **identity}
        flavor.write(folder, checkpoint, plan, metadata, evaluation, **names)
        if model is None:
            store.call(store.client.log_artifacts, run.info.run_id, str(folder), NAME)
        else:
            store.call(store.client.log_model_artifacts, model.model_id, str(folder))
    except Failures as error:
        # If the server did not answer, keep the entry: the next attempt continues from it.
        if model and is_new and (not isinstance(error, TrackingError) or is_refusal(error)):
            with suppress(TrackingError):
                store.call(store.client.delete_logged_model, model.model_id)
        raise
    _finish(store, run, model)


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


def _finish(store: Store, run: Run, model: LoggedModel | None) -> None:
    """Mark the model as ready and link it to the run. The run's tag is written last."""
    client, run_id = store.client, run.info.run_id
    if model is None:
        store.tag(run_id, {MODEL_ARTIFACT: f"runs:/{run_id}/{NAME}"})
    else:
        if model.status != LoggedModelStatus.READY:
            store.call(client.finalize_logged_model, model.model_id, LoggedModelStatus.READY)
        outputs = run.outputs.model_outputs if run.outputs else []
        if model.model_id not in {each.model_id for each in outputs}:
            store.call(client.log_outputs, run_id, [LoggedModelOutput(model.model_id, step=0)])
        store.tag(run_id, {MODEL_ID: model.model_id})
    if FAILURE in run.data.tags:
        store.call(client.delete_tag, run_id, FAILURE)
