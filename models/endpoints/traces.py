"""Record a request and its answer as an MLflow trace, in the experiment of the model's run."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mlflow import MlflowClient
from mlflow.tracing import context

from tracking.server.store import Store
from training.contract.errors import TrackingError

NAME = "predict"
_LOGGERS = ("mlflow.tracing", "mlflow.tracking")


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A request and its answer."""

    endpoint: str
    service: str
    """`local` or `sagemaker`."""
    run_id: str
    """Run of the job that trained the model."""
    model_id: str | None
    request: Mapping[str, Any]
    """Request as it was sent: inputs and parameters."""
    answer: Any
    started_ns: int
    """Time of the request, in nanoseconds since the epoch."""
    ended_ns: int


def trace(store: Store, prediction: Prediction) -> str:
    """Record the trace and return its id. Raises `TrackingError` if the server did not store it."""
    store.subject = f"the experiment of run '{prediction.run_id}'"
    run = store.call(store.client.get_run, prediction.run_id)
    with _quietly():
        trace_id = _written(store.client, prediction, str(run.info.experiment_id))
        # MLflow only logs a failed write, so check that the trace exists.
        try:
            store.client.get_trace(trace_id, display=False)
        except Exception as error:
            raise TrackingError(
                f"The tracking server {store.uri} did not store the trace: it rejected the trace, "
                "or it runs an MLflow older than 3."
            ) from error
    return trace_id


def _written(client: MlflowClient, prediction: Prediction, experiment_id: str) -> str:
    # With this key, MLflow shows the trace on the model's page.
    with context(metadata={"mlflow.modelId": prediction.model_id} if prediction.model_id else None):
        span = client.start_trace(
            NAME,
            span_type="LLM" if _is_text(prediction.answer) else "UNKNOWN",
            inputs=dict(prediction.request),
            attributes={"endpoint": prediction.endpoint},
            tags={"platform.endpoint": prediction.endpoint, "platform.service": prediction.service},
            experiment_id=experiment_id,
            start_time_ns=prediction.started_ns,
            run_id=prediction.run_id,
        )
    client.end_trace(span.trace_id, outputs=prediction.answer, end_time_ns=prediction.ended_ns)
    return str(span.trace_id)


def _is_text(answer: Any) -> bool:
    return isinstance(answer, list) and bool(answer) and isinstance(answer[0], dict) and "generated_text" in answer[0]


@contextmanager
def _quietly() -> Iterator[None]:
    """Make MLflow write traces synchronously, and silence its log."""
    before = os.environ.get("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING")
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            # mlflow.pyfunc warns about its own type hints.
            warnings.filterwarnings("ignore", message=".*Any type hint is inferred", category=UserWarning)
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        if before is None:
            del os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"]
        else:
            os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = before
