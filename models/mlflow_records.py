"""Record in MLflow what a command did with a model: a note, the prediction of a file, the trace of a request."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from mlflow.entities import LoggedModelInput, Metric, Param
from mlflow.tracing import context
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE
from mlflow.utils.time import get_current_time_millis

from models.endpoints.protocol import EndpointState
from models.trained_model import TrainedModel
from tracking.server.store import Store
from training.contract.errors import TrackingError

DEFAULT_EXPERIMENT = "predictions"
"""MLflow experiment for predictions with a model that has no run."""


def note_command(store: Store, verb: str, name: str, note: str) -> None:
    """Write name and note to this command's run, if it has one. Errors of the tracking server are ignored."""
    if run_id := os.environ.get("MLFLOW_RUN_ID"):
        with suppress(TrackingError):
            tags = {"platform.kind": verb, MLFLOW_RUN_NAME: f"{verb} {name}", MLFLOW_RUN_NOTE: note}
            store.tag(run_id, tags)


@contextmanager
def recorded(
    store: Store, trained: TrainedModel | None, description: Mapping[str, str], note: str
) -> Iterator[dict[str, float]]:
    """Record the block as a run with the parameters `prediction.*`: the run that `mlflow run` opened, or a new one.

    The block adds the run's metrics to the mapping. A successful run gets the note.
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


def trace(
    store: Store, state: EndpointState, request: Mapping[str, Any], answer: Any, started_ns: int, ended_ns: int
) -> str:
    """Record the trace of an endpoint whose model has a run, and return its id. Times are nanoseconds since the epoch.

    Raises `TrackingError` if the server did not store it.
    """
    store.subject = f"the experiment of run '{state.run_id}'"
    run = store.call(store.client.get_run, str(state.run_id))
    is_text = isinstance(answer, list) and bool(answer) and "generated_text" in answer[0]
    # With this key, MLflow shows the trace on the model's page.
    model = {"mlflow.modelId": state.model_id} if state.model_id else None
    with _quietly():
        with context(metadata=model):
            span = store.client.start_trace(
                "predict",
                span_type="LLM" if is_text else "UNKNOWN",
                inputs=dict(request),
                attributes={"endpoint": state.name},
                tags={"platform.endpoint": state.name, "platform.service": state.service},
                experiment_id=run.info.experiment_id,
                start_time_ns=started_ns,
                run_id=state.run_id,
            )
        store.client.end_trace(span.trace_id, outputs=answer, end_time_ns=ended_ns)
        # MLflow only logs a failed write, so check that the trace exists.
        try:
            store.client.get_trace(span.trace_id, display=False)
        except Exception as error:
            raise TrackingError(
                f"The tracking server {store.uri} did not store the trace: it rejected the trace, "
                "or it runs an MLflow older than 3."
            ) from error
    return str(span.trace_id)


@contextmanager
def _quietly() -> Iterator[None]:
    """Make MLflow write traces synchronously, and silence its log for the rest of the process, which ends soon."""
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    for name in ("mlflow.tracing", "mlflow.tracking"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        # mlflow.pyfunc warns about its own type hints.
        warnings.filterwarnings("ignore", message=".*Any type hint is inferred", category=UserWarning)
        yield
