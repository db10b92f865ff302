"""Send a request to an endpoint, or predict a whole file."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from experiments.deployments import arguments as read
from experiments.deployments.existing_endpoints import find_service, open_service
from experiments.running.output import print_error, print_line
from models.endpoints.protocol import EndpointState
from training.contract.errors import InputError, TrackingError

FIELDS = ("endpoint", "text", "inputs", "parameters", "file", "service", "trace")
RETRY_SECONDS = 10.0


def predict(fields: Mapping[str, str]) -> int:
    """Print the answer of an endpoint as JSON, or predict a file with `predict_file`."""
    if "file" in fields:
        from experiments.deployments.predict_file import predict_file

        return predict_file(fields)
    read.check_known("predict", fields, FIELDS)
    read.check_not_empty(fields)
    is_traced = read.one_of("trace", fields.get("trace", "true"), ("true", "false")) == "true"
    name = read.read_name("endpoint", fields["endpoint"]) if "endpoint" in fields else _only_name()
    body = _body(fields)
    service = find_service(name, fields, print_error)
    started_ns = time.time_ns()
    answer = service.predict(name, json.dumps(body).encode())
    ended_ns = time.time_ns()
    print_line(answer.decode("utf-8", "replace"))
    if is_traced and (state := service.describe(name)).run_id:
        _trace(state, body, answer, started_ns, ended_ns)
    return 0


def _body(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the request; `--inputs` may be the whole request or only the value of its key `inputs`."""
    if "text" in fields and "inputs" in fields:
        raise InputError("--text and --inputs cannot be combined: use --text for one text and --inputs for JSON.")
    if "text" in fields:
        inputs: Any = fields["text"]
    else:
        inputs = _json("inputs", fields["inputs"] if "inputs" in fields else _standard_input())
    body = inputs if isinstance(inputs, dict) and "inputs" in inputs else {"inputs": inputs}
    if "parameters" in fields:
        if "parameters" in body:
            raise InputError("parameters are set twice: by --parameters and within --inputs.")
        body = {**body, "parameters": _json("parameters", fields["parameters"])}
    return body


def _standard_input() -> str:
    """Return standard input. Raises `InputError` if it is empty or a terminal."""
    text = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    if not text.strip():
        raise InputError("predict needs --text, --inputs (JSON), --file, or JSON on standard input.")
    return text


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) < 60 else text[:60] + "…"
        raise InputError(f"--{name} is not JSON: {error} in {shown!r}. Use --text for plain text.") from error


def _only_name() -> str:
    names = [state.name for state in open_service("local", {}, print_error).endpoints()]
    if len(names) != 1:
        has = f"has the endpoints {', '.join(sorted(names))}" if names else "has no endpoint"
        raise InputError(f"predict needs --endpoint NAME: this machine {has}.")
    return names[0]


def _trace(state: EndpointState, body: Mapping[str, Any], answer: bytes, started_ns: int, ended_ns: int) -> None:
    """Log request and answer to MLflow. A failure is only reported, because the answer has already been printed."""
    from models.mlflow_records import trace
    from tracking.server.store import open_store

    try:
        store = open_store(retry_seconds=RETRY_SECONDS, otherwise="The answer is valid.", echo=print_error)
        print_error(f"Trace: {trace(store, state, body, json.loads(answer), started_ns, ended_ns)}")
    except TrackingError as error:
        print_error(f"The request was not logged to MLflow: {error}")
