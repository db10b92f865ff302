"""Record the prediction of a file as an MLflow run, linked to the model's training run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from mlflow.entities import LoggedModelInput, Metric, Param
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


@contextmanager
def recorded(
    store: Store, trained: TrainedModel | None, description: Mapping[str, str], note: str
) -> Iterator[dict[str, float]]:
    """Record the block as a run with the parameters `prediction.*`: the run that `mlflow run` opened, or a new one.

    The block adds the run's metrics to the mapping. The note is that of a successful run.
    """
    run_id = os.environ.get("MLFLOW_RUN_ID")
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
        with suppress(TrackingError):  # servers older than MLflow 3 have no logged models
            store.call(store.client.log_inputs, run_id, models=[LoggedModelInput(model_id=trained.model_id)])
    figures: dict[str, float] = {}
    status = "FAILED"
    try:
        yield figures
        status = "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        now_ms = get_current_time_millis()
        metrics = [Metric(f"prediction/{name}", value, now_ms, 0) for name, value in figures.items()]
        with suppress(TrackingError):  # the answers exist, even if MLflow is down
            store.call(store.client.log_batch, run_id, metrics=metrics)
            store.tag(run_id, {MLFLOW_RUN_NOTE: note if status == "FINISHED" else "Not finished."})
            store.call(store.client.set_terminated, run_id, status)


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
