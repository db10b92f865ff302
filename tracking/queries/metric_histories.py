"""The curves of many runs, in few calls.

A database is asked for its columns: MLflow's client makes an object of every row, which takes ten times as long. A
server is asked as MLflow's UI does it, by `metrics/get-history-bulk-interval`: one metric of up to 100 runs in a call,
at most 2,500 points of each; of a longer one every so many-th, the first and the last among them (MLflow 3.17,
`server/handlers.py`). Its client has no method for that, so the call is made here. A store that does not know the call,
or does not let it through, is asked for one run after the other; so is SageMaker's, which has no right of that name
(Service Authorization Reference, `sagemaker-mlflow`: GetMetricHistory alone).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException
from mlflow.protos.service_pb2 import GetMetricHistoryBulkInterval
from mlflow.store.tracking.rest_store import RestStore
from mlflow.utils.proto_json_utils import message_to_json

from tracking.server.errors import translated

HISTORY_COLUMNS = ["step", "samples", "billable_seconds", "key", "value"]
MOST_POINTS = 2500
"""Points of one curve, the most that a server gives in that call."""
_RUNS_A_CALL = 20
"""Answers stay within some tens of MB, and several can be made at once."""
_CALLS_AT_ONCE = 4
"""To a server; a database in this process has one core to answer with."""

Point = tuple[int, int, float]
"""Step, milliseconds since the epoch, value."""


def histories(
    client: MlflowClient, starts: Mapping[str, float], keys: Sequence[str], *, most_points: int = MOST_POINTS
) -> dict[str, pd.DataFrame]:
    """Return the points of the metrics `keys` by run id, see `curve_table`; of long curves `most_points`, evenly apart.

    `starts` are the runs with the seconds since the epoch that their `billable_seconds` count from.
    Raises `TrackingError` when the server does not answer.
    """
    runs = list(starts)
    parts = [runs[at : at + _RUNS_A_CALL] for at in range(0, len(runs), _RUNS_A_CALL)]
    read = partial(_read, client, starts, keys, most_points)
    is_remote = isinstance(_store(client), RestStore)
    with ThreadPoolExecutor(_CALLS_AT_ONCE if is_remote else 1) as pool:
        return {run_id: table for part in pool.map(read, parts) for run_id, table in part.items()}


def curve_table(told: Mapping[str, Sequence[Point]], keys: Sequence[str], start: float) -> pd.DataFrame:
    """Return the points of the metrics `keys`: step, samples seen at that step, billable_seconds, key, value.

    `told` holds them and those of `samples`; between two steps that tell their samples these grow evenly.
    `billable_seconds` counts from `start`, seconds since the epoch. A step that was trained twice, after a restart,
    keeps its later point.
    """
    samples = _sorted(told["samples"])
    points = [_sorted(told[key]) for key in keys]
    step, at_ms, value = np.concatenate([*points, np.empty((0, 3))]).T
    seen = np.interp(step, samples[:, 0], samples[:, 2], math.nan, math.nan) if len(samples) else np.nan * step
    return pd.DataFrame(
        {
            "step": step.astype("int64"),
            "samples": seen,
            "billable_seconds": at_ms / 1000 - start,
            "key": [key for key, found in zip(keys, points, strict=True) for _ in range(len(found))],
            "value": value,
        },
        columns=HISTORY_COLUMNS,
    )


def points_of(metrics: Iterable[Metric]) -> list[Point]:
    """Return the points of MLflow's metrics."""
    return [(each.step, each.timestamp, each.value) for each in metrics]


def number(value: float) -> float:
    """Return a metric as it was logged: SQL stores keep an infinity as the largest float."""
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else value


def _read(
    client: MlflowClient, starts: Mapping[str, float], keys: Sequence[str], most_points: int, run_ids: Sequence[str]
) -> dict[str, pd.DataFrame]:
    try:
        told = {key: _points(client, run_ids, key, most_points) for key in dict.fromkeys(["samples", *keys])}
    except MlflowException as error:
        which = f"run {run_ids[0]}" if len(run_ids) == 1 else f"{len(run_ids)} runs"
        raise translated(error, client.tracking_uri, task=f"give the curves of {which}") from error
    return {run: curve_table({key: told[key][run] for key in told}, keys, starts[run]) for run in run_ids}


def _points(client: MlflowClient, run_ids: Sequence[str], key: str, most: int) -> Mapping[str, Sequence[Point]]:
    """Return one metric's points by run id."""
    try:
        found: dict[str, list[Point]] = {run_id: [] for run_id in run_ids}
        for run_id, step, at_ms, value in _together(client, run_ids, key, most):
            found[run_id].append((step, at_ms, value))
    except MlflowException:
        found = {run_id: points_of(client.get_metric_history(run_id, key)) for run_id in run_ids}
    return {run_id: _thinned(points, most) for run_id, points in found.items()}


def _together(
    client: MlflowClient, run_ids: Sequence[str], key: str, most: int
) -> Iterable[tuple[str, int, int, float]]:
    """Return run id, step, milliseconds and value of one metric of several runs. Raises `MlflowException`."""
    store = _store(client)
    if isinstance(store, RestStore) and not str(client.tracking_uri).startswith("arn:"):
        asked = GetMetricHistoryBulkInterval(run_ids=run_ids, metric_key=key, max_results=most)
        told = store._call_endpoint(GetMetricHistoryBulkInterval, message_to_json(asked)).metrics
        return [(each.run_id, each.step, each.timestamp, each.value) for each in told]
    if hasattr(store, "ManagedSessionMaker"):
        return _of_database(store, run_ids, key)
    raise MlflowException(f"{type(store).__name__} has no call for the curves of several runs.")


def _of_database(store: Any, run_ids: Sequence[str], key: str) -> Iterable[tuple[str, int, int, float]]:
    # Only here: who asks a server needs no SQL.
    from mlflow.store.tracking.dbmodels.models import SqlMetric
    from sqlalchemy import select

    columns = (SqlMetric.run_uuid, SqlMetric.step, SqlMetric.timestamp, SqlMetric.value, SqlMetric.is_nan)
    with store.ManagedSessionMaker() as session:
        rows = session.execute(select(*columns).where(SqlMetric.key == key, SqlMetric.run_uuid.in_(run_ids))).all()
    return [(run, step, at_ms, math.nan if is_nan else value) for run, step, at_ms, value, is_nan in rows]


def _store(client: MlflowClient) -> Any:
    # No public name leads to it; MLflow's own plug-ins take the same way.
    return client._tracking_client.store


def _thinned(points: Sequence[Point], most: int) -> Sequence[Point]:
    """Return `most` of the points by step, the first and the last among them; or all, where there are fewer."""
    if len(points) <= most:
        return points
    ordered = sorted(points)
    return [ordered[at] for at in np.linspace(0, len(ordered) - 1, most).round().astype(int)]


def _sorted(points: Sequence[Point]) -> np.ndarray:
    """Return (step, milliseconds, value) by step, the latest point of each."""
    found = np.array(points, dtype=float).reshape(-1, 3)
    found = found[np.lexsort((found[:, 1], found[:, 0]))]
    # SQL stores keep an infinity as the largest float.
    value = found[:, 2]
    found[:, 2] = np.where(np.abs(value) >= sys.float_info.max, np.copysign(math.inf, value), value)
    return found[np.append(np.diff(found[:, 0]) != 0, True)] if len(found) else found
