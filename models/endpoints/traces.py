"""A question to an endpoint and its answer, as an MLflow trace in the experiment of the model's run."""

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
class Asked:
    """One question and its answer."""

    endpoint: str
    service: str
    """`local` or `sagemaker`."""
    run_id: str
    """Of the job that trained the model."""
    model_id: str | None
    request: Mapping[str, Any]
    """As it was sent: inputs and parameters."""
    answer: Any
    started_ns: int
    """When it was sent, nanoseconds since the epoch; the time until the answer is the trace's latency."""
    ended_ns: int


def trace(store: Store, asked: Asked) -> str:
    """Record it, and return the trace's id. Raises `TrackingError` where the server does not hold it afterwards."""
    store.subject = f"the experiment of run '{asked.run_id}'"
    run = store.call(store.client.get_run, asked.run_id)
    with _quietly():
        trace_id = _written(store.client, asked, str(run.info.experiment_id))
        # What MLflow cannot write it logs and forgets: whether it is there is asked.
        try:
            store.client.get_trace(trace_id, display=False)
        except Exception as error:
            raise TrackingError(
                f"the tracking server {store.uri} does not hold the trace: it is older than MLflow 3, or refuses it."
            ) from error
    return trace_id


def _written(client: MlflowClient, asked: Asked, experiment_id: str) -> str:
    # By this name MLflow shows the trace on the page of the model.
    with context(metadata={"mlflow.modelId": asked.model_id} if asked.model_id else None):
        span = client.start_trace(
            NAME,
            span_type="LLM" if _is_text(asked.answer) else "UNKNOWN",
            inputs=dict(asked.request),
            attributes={"endpoint": asked.endpoint},
            tags={"platform.endpoint": asked.endpoint, "platform.service": asked.service},
            experiment_id=experiment_id,
            start_time_ns=asked.started_ns,
            run_id=asked.run_id,
        )
    client.end_trace(span.trace_id, outputs=asked.answer, end_time_ns=asked.ended_ns)
    return str(span.trace_id)


def _is_text(answer: Any) -> bool:
    return isinstance(answer, list) and bool(answer) and isinstance(answer[0], dict) and "generated_text" in answer[0]


@contextmanager
def _quietly() -> Iterator[None]:
    """Let MLflow write at once, and keep what it says to itself."""
    before = os.environ.get("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING")
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            # What importing mlflow.pyfunc says of MLflow's own type hints.
            warnings.filterwarnings("ignore", message=".*Any type hint is inferred", category=UserWarning)
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        if before is None:
            del os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"]
        else:
            os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = before
