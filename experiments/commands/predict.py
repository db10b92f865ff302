"""The verb `predict`: ask an endpoint once, or have a whole file answered."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from experiments.deployments import arguments as read
from experiments.deployments.known_endpoints import found, notes
from experiments.running.output import remark
from models.endpoints.protocol import EndpointState
from training.contract.errors import InputError, TrackingError

FIELDS = ("endpoint", "text", "inputs", "parameters", "file", "service", "trace")
PATIENCE_SECONDS = 10.0


def predict(given: Mapping[str, str]) -> int:
    """Print the answer of an endpoint as JSON; with `file`, see `experiments.deployments.predict_file`."""
    if "file" in given:
        from experiments.deployments.predict_file import predict_file

        return predict_file(given)
    read.known_only("predict", given, FIELDS)
    is_traced = read.one_of("trace", given.get("trace", "true"), ("true", "false")) == "true"
    name = read.name_checked("endpoint", given["endpoint"]) if "endpoint" in given else _only_one()
    body = _body(given)
    note, service = found(name, given, remark)
    state = service.describe(note.name)
    started_ns = time.time_ns()
    answer = service.predict(note.name, json.dumps(body).encode())
    ended_ns = time.time_ns()
    print(answer.decode("utf-8", "replace"), flush=True)
    if is_traced and state.run_id:
        _trace(state, body, answer, started_ns, ended_ns)
    return 0


def _body(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the request: `inputs` may be the whole of it, or what stands under its `inputs`."""
    if "text" in given and "inputs" in given:
        raise InputError("text and inputs exclude each other: text is one input.")
    if "text" in given:
        inputs: Any = given["text"]
    else:
        inputs = _json("inputs", given["inputs"] if "inputs" in given else _typed())
    body = inputs if isinstance(inputs, dict) and "inputs" in inputs else {"inputs": inputs}
    if "parameters" in given:
        if "parameters" in body:
            raise InputError("parameters are given twice: by themselves and within inputs.")
        body = {**body, "parameters": _json("parameters", given["parameters"])}
    return body


def _typed() -> str:
    """Return what comes on standard input. Raises `InputError` at a terminal, where nothing does."""
    text = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    if not text.strip():
        raise InputError("predict needs text=, inputs= (JSON), file=, or JSON on standard input.")
    return text


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) < 60 else text[:60] + "…"
        raise InputError(f"{name} is not JSON: {error} in {shown!r}; a plain text is given as text=.") from error


def _only_one() -> str:
    names = sorted({note.name for note in notes()})
    if len(names) == 1:
        return names[0]
    there = f": there are {', '.join(names)}" if names else ", and none was deployed from here"
    raise InputError(f"predict needs endpoint=NAME{there}.")


def _trace(state: EndpointState, body: Mapping[str, Any], answer: bytes, started_ns: int, ended_ns: int) -> None:
    """Record the question and the answer in MLflow; where that cannot be, the answer has been given all the same."""
    from models.endpoints.traces import Prediction, trace
    from tracking.server.store import open_store

    asked = Prediction(
        endpoint=state.name,
        service=state.service,
        run_id=str(state.run_id),
        model_id=state.model_id,
        request=body,
        answer=json.loads(answer),
        started_ns=started_ns,
        ended_ns=ended_ns,
    )
    try:
        store = open_store(patience_seconds=PATIENCE_SECONDS, otherwise="The answer stands.", say=remark)
        remark(f"Trace: {trace(store, asked)}")
    except TrackingError as error:
        remark(f"The answer was not traced: {error}")
