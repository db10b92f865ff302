"""Record the prediction of a file as an MLflow run, linked to the model's training run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from mlflow.entities import LoggedModelInput, Metric, Param, RunStatus
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE
from mlflow.utils.time import get_current_time_millis

from models.loading.evaluation import Evaluation, evaluation_of
from models.lookup.trained_model import TrainedModel
from tracking.server.store import Store
from training.contract.errors import TrackingError

DEFAULT_EXPERIMENT = "predictions"
"""MLflow experiment for predictions with a model that has no run."""


def evaluation_settings(store: Store, trained: TrainedModel) -> Evaluation:
    """Return the settings with which a run's model was evaluated."""
    return evaluation_of(store.call(store.client.get_run, trained.run_id).data.params, trained.task)


def begin(store: Store, trained: TrainedModel | None, description: Mapping[str, str], earlier: str | None) -> str:
    """Return the id of a RUNNING run for this prediction.

    If `mlflow run` started this process, it is the run that MLflow opened. If this process resumes an interrupted
    prediction, it is that prediction's run, `earlier`. Otherwise it is a new run in the model's experiment.
    """
    opened = os.environ.get("MLFLOW_RUN_ID")
    run_id = opened or (earlier if earlier and _resume(store, earlier) else None)
    if opened and earlier and earlier != opened:
        end(store, earlier, "KILLED", {}, f"Run `{opened}` resumed from here.")
    if run_id is None:
        run_id = str(store.call(store.client.create_run, _experiment_id(store, trained)).info.run_id)
    tags = {"platform.kind": "prediction", MLFLOW_RUN_NAME: f"predict {description['file'].rpartition('/')[2]}"}
    if trained is not None:
        tags |= {"platform.model_run": trained.run_id, "platform.job_name": trained.job_name}
        tags |= {"platform.model_id": trained.model_id} if trained.model_id else {}
    store.tag(run_id, tags)
    params = [Param(f"prediction.{name}", value) for name, value in description.items()]
    store.call(store.client.log_batch, run_id, params=params)
    if trained is not None and trained.model_id:
        _link(store, run_id, trained.model_id)
    return run_id


def end(store: Store, run_id: str, status: str, figures: Mapping[str, float], note: str) -> None:
    """End the run as FINISHED, FAILED or KILLED. The metrics have names such as `prediction/rows_per_second`."""
    now_ms = get_current_time_millis()
    metrics = [Metric(name, value, now_ms, 0) for name, value in figures.items()]
    with suppress(TrackingError):  # the answers exist, even if MLflow is down
        store.call(store.client.log_batch, run_id, metrics=metrics)
        store.tag(run_id, {MLFLOW_RUN_NOTE: note})
        store.call(store.client.set_terminated, run_id, status)


def _resume(store: Store, run_id: str) -> bool:
    try:
        store.call(store.client.update_run, run_id, status=RunStatus.to_string(RunStatus.RUNNING))
    except TrackingError as error:
        if isinstance(error.__cause__, MlflowException):  # the run was deleted, or belongs to a different server
            return False
        raise
    return True


def _experiment_id(store: Store, trained: TrainedModel | None) -> str:
    if experiment_id := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return experiment_id
    if trained is not None:
        return trained.experiment_id
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or DEFAULT_EXPERIMENT

    def existing() -> str | None:
        experiment = store.client.get_experiment_by_name(name)
        return str(experiment.experiment_id) if experiment else None

    return store.call(existing) or str(store.create(store.client.create_experiment, name, existing=existing))


def _link(store: Store, run_id: str, model_id: str) -> None:
    """Link the run to the model. Errors are ignored: servers older than MLflow 3 have no logged models."""
    with suppress(TrackingError):
        store.call(store.client.log_inputs, run_id, models=[LoggedModelInput(model_id=model_id)])
