"""Location of the files of a run's MLflow model."""

from __future__ import annotations

from pathlib import PurePosixPath

from mlflow.exceptions import MlflowException

from models.lookup.trained_model import TrainedModel
from tracking.server.store import Store
from training.contract.errors import InputError, TrackingError


def find_artifact_location(store: Store, trained: TrainedModel) -> str:
    """Return the URI of a model's files. Raises `InputError` if the run has no MLflow model, and `TrackingError`."""
    if trained.model_id is None:
        if trained.model_artifact is None:
            raise InputError(
                f"run {trained.run_id} ({trained.job_name}) has no MLflow model: {_missing_reason(trained)}."
            )
        run = store.call(store.client.get_run, trained.run_id)
        return f"{run.info.artifact_uri}/{PurePosixPath(trained.model_artifact).name}"
    try:
        return str(store.call(store.client.get_logged_model, trained.model_id).artifact_location)
    except TrackingError as error:
        if error_code(error) in {"RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"}:
            title = f"model {trained.model_id} of run {trained.run_id} ({trained.job_name})"
            raise InputError(f"{title} no longer exists on the tracking server {store.uri}.") from error
        raise


def _missing_reason(trained: TrainedModel) -> str:
    if trained.model_failure:
        return trained.model_failure.rstrip(".")
    if trained.artifact_deleted:
        return deleted_reason(trained)
    return "none was logged (see log_model)" if trained.artifact_uri else "its job saved none (see save_model)"


def deleted_reason(trained: TrainedModel) -> str:
    """Return the sentence about a model whose artifact was deleted, without the full stop."""
    date = trained.artifact_deleted.partition(" ")[0]
    return (
        f"its files were deleted on {date}; a comparison keeps the best model of each setting (log_model), and the "
        f"group's id, {trained.group}, names the winner's"
    )


def error_code(error: TrackingError) -> str:
    """Return MLflow's error code, or an empty text if the server did not answer."""
    cause = error.__cause__
    return str(cause.error_code) if isinstance(cause, MlflowException) else ""
