"""Record the trace of a request to an endpoint in MLflow."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from typing import Any

from mlflow.tracing import context

from models.endpoints.protocol import EndpointState
from tracking.server.store import Store
from training.contract.errors import TrackingError


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
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    for name in ("mlflow.tracing", "mlflow.tracking"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # for the rest of the process, which ends soon
    with warnings.catch_warnings():
        # mlflow.pyfunc warns about its own type hints.
        warnings.filterwarnings("ignore", message=".*Any type hint is inferred", category=UserWarning)
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
