"""The prediction of a file, as a run of kind `prediction` that is linked to the run of the model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from mlflow.entities import LoggedModelInput, Metric, Param, RunStatus
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE
from mlflow.utils.time import get_current_time_millis

from models.lookup.trained_model import TrainedModel
from tracking.server.store import Store
from training.contract.errors import TrackingError

MOST_LENGTH = 5_000
"""Characters of a parameter."""
ALONE = "predictions"
"""MLflow experiment of predictions by a model that no run has."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """How a model was when it was evaluated, as far as its run tells."""

    precision: str | None
    """fp32, bf16 or fp16."""
    max_length: int | None
    """Tokens that texts were cut to; None where they were not: a language model's texts were cut in blocks."""


def evaluated(store: Store, trained: TrainedModel) -> Evaluated:
    """Return how the model of a run was evaluated."""
    params = store.call(store.client.get_run, trained.run_id).data.params
    precision = params.get("hp.precision")
    length = "" if trained.task == "causal-lm" else params.get("hp.max_length", "")
    return Evaluated(
        precision=precision if precision in ("fp32", "bf16", "fp16") else None,
        max_length=int(length) if length.isdecimal() else None,
    )


def begin(store: Store, trained: TrainedModel | None, told: Mapping[str, str], earlier: str | None) -> str:
    """Return the id of the run, which is RUNNING: the one that `mlflow run` opened, or that of the `earlier` process
    that this one goes on from, or a new one in the model's experiment.
    """
    given = os.environ.get("MLFLOW_RUN_ID")
    run_id = given or (earlier if earlier and _go_on(store, earlier) else None)
    if given and earlier and earlier != given:
        end(store, earlier, "KILLED", {}, f"Run `{given}` went on from here.")
    if run_id is None:
        run_id = str(store.call(store.client.create_run, _experiment_id(store, trained)).info.run_id)
    tags = {"platform.kind": "prediction", MLFLOW_RUN_NAME: f"predict {told['file'].rpartition('/')[2]}"}
    if trained is not None:
        tags |= {"platform.model_run": trained.run_id, "platform.job_name": trained.job_name}
        tags |= {"platform.model_id": trained.model_id} if trained.model_id else {}
    store.tag(run_id, tags)
    params = [Param(f"prediction.{name}", value[:MOST_LENGTH]) for name, value in told.items()]
    store.call(store.client.log_batch, run_id, params=params)
    if trained is not None and trained.model_id:
        _link(store, run_id, trained.model_id)
    return run_id


def end(store: Store, run_id: str, status: str, figures: Mapping[str, float], note: str) -> None:
    """End the run with `status` FINISHED, FAILED or KILLED; figures by name, such as `prediction/rows_per_second`."""
    now_ms = get_current_time_millis()
    metrics = [Metric(name, value, now_ms, 0) for name, value in figures.items()]
    with suppress(TrackingError):  # the answers are there, whoever hears of them
        store.call(store.client.log_batch, run_id, metrics=metrics)
        store.tag(run_id, {MLFLOW_RUN_NOTE: note})
        store.call(store.client.set_terminated, run_id, status)


def _go_on(store: Store, run_id: str) -> bool:
    try:
        store.call(store.client.update_run, run_id, status=RunStatus.to_string(RunStatus.RUNNING))
    except TrackingError as error:
        if isinstance(error.__cause__, MlflowException):  # of another server, or deleted
            return False
        raise
    return True


def _experiment_id(store: Store, trained: TrainedModel | None) -> str:
    if given := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return given
    if trained is not None:
        return trained.experiment_id
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or ALONE

    def existing() -> str | None:
        found = store.client.get_experiment_by_name(name)
        return str(found.experiment_id) if found else None

    return store.call(existing) or str(store.create(store.client.create_experiment, name, existing=existing))


def _link(store: Store, run_id: str, model_id: str) -> None:
    """Have MLflow show the run beside the model; servers before MLflow 3 know no such models."""
    with suppress(TrackingError):
        store.call(store.client.log_inputs, run_id, models=[LoggedModelInput(model_id=model_id)])
