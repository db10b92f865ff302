"""Read the metric histories of many runs in few calls.

A database's columns are read directly: MLflow's client makes an object of every row, which takes ten times as long. A
server is called as MLflow's UI calls it, through `metrics/get-history-bulk-interval`: one call returns one metric of up
to 100 runs with at most 2,500 points each. From longer histories the server takes evenly spaced points, including the
first and the last (MLflow 3.17, `server/handlers.py`). MLflow's client has no method for this call, so it is made here.
Stores that do not know or allow the call are read run by run. SageMaker's store is one of them, because it has no
permission of that name (Service Authorization Reference, `sagemaker-mlflow`: only GetMetricHistory).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.service_pb2 import GetMetricHistoryBulkInterval
from mlflow.store.tracking.rest_store import RestStore
from mlflow.utils.proto_json_utils import message_to_json

from tracking.server.store import server_errors

HISTORY_COLUMNS = ["step", "samples", "billable_seconds", "key", "value"]
MAX_POINTS = 2500
"""Largest number of points of one metric and run that a server returns in one call."""
_RUNS_PER_CALL = 20
"""Limits an answer to some tens of MB."""

Point = tuple[int, int, float]
"""Step, milliseconds since the epoch, and value."""


def histories(
    client: MlflowClient, starts: Mapping[str, float], keys: Sequence[str], *, max_points: int = MAX_POINTS
) -> dict[str, pd.DataFrame]:
    """Return the points of the metrics `keys` by run id, see `curve_table`; at most `max_points` of each.

    `starts` maps each run id to the start of its `billable_seconds`, in seconds since the epoch.
    Raises `TrackingError` if the server does not answer.
    """
    runs = list(starts)
    parts = [runs[at : at + _RUNS_PER_CALL] for at in range(0, len(runs), _RUNS_PER_CALL)]
    return {run_id: table for part in parts for run_id, table in _read(client, starts, keys, max_points, part).items()}


def curve_table(points_by_key: Mapping[str, Sequence[Point]], keys: Sequence[str], start: float) -> pd.DataFrame:
    """Return the points of the metrics `keys`: step, samples at that step, billable_seconds, key and value.

    `points_by_key` holds these metrics and `samples`; samples are interpolated between the steps that report them.
    `billable_seconds` counts from `start`, in seconds since the epoch. A step that was trained twice, after a restart,
    keeps its later point.
    """
    samples = _sorted(points_by_key["samples"])
    points = [_sorted(points_by_key[key]) for key in keys]
    step, at_ms, value = np.concatenate([*points, np.empty((0, 3))]).T
    samples_at = np.interp(step, samples[:, 0], samples[:, 2], math.nan, math.nan) if len(samples) else np.nan * step
    return pd.DataFrame(
        {
            "step": step.astype("int64"),
            "samples": samples_at,
            "billable_seconds": at_ms / 1000 - start,
            "key": [key for key, rows in zip(keys, points, strict=True) for _ in range(len(rows))],
            "value": value,
        },
        columns=HISTORY_COLUMNS,
    )


def number(value: float) -> float:
    """Return a metric's value as it was logged. SQL stores save infinity as the largest float; this reverses that."""
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else value


def _read(
    client: MlflowClient, starts: Mapping[str, float], keys: Sequence[str], max_points: int, run_ids: Sequence[str]
) -> dict[str, pd.DataFrame]:
    which = f"run {run_ids[0]}" if len(run_ids) == 1 else f"{len(run_ids)} runs"
    with server_errors(client, f"return the curves of {which}"):
        points = {key: _points(client, run_ids, key, max_points) for key in dict.fromkeys(["samples", *keys])}
    return {run: curve_table({key: points[key][run] for key in points}, keys, starts[run]) for run in run_ids}


def _points(client: MlflowClient, run_ids: Sequence[str], key: str, max_points: int) -> Mapping[str, Sequence[Point]]:
    """Return one metric's points by run id."""
    try:
        points: dict[str, list[Point]] = {run_id: [] for run_id in run_ids}
        for run_id, step, at_ms, value in _points_of_runs(client, run_ids, key, max_points):
            points[run_id].append((step, at_ms, value))
    except MlflowException:
        history = client.get_metric_history
        points = {run: [(each.step, each.timestamp, each.value) for each in history(run, key)] for run in run_ids}
    return {run_id: _thin_out(of_run, max_points) for run_id, of_run in points.items()}


def _points_of_runs(
    client: MlflowClient, run_ids: Sequence[str], key: str, max_points: int
) -> Iterable[tuple[str, int, int, float]]:
    """Return run id, step, milliseconds and value of all points of one metric. Raises `MlflowException`."""
    store = client._tracking_client.store  # MLflow has no public name for it; its own plug-ins read it the same way
    if isinstance(store, RestStore) and not str(client.tracking_uri).startswith("arn:"):
        request = GetMetricHistoryBulkInterval(run_ids=run_ids, metric_key=key, max_results=max_points)
        metrics = store._call_endpoint(GetMetricHistoryBulkInterval, message_to_json(request)).metrics
        return [(each.run_id, each.step, each.timestamp, each.value) for each in metrics]
    if hasattr(store, "ManagedSessionMaker"):
        return _points_in_database(store, run_ids, key)
    raise MlflowException(f"{type(store).__name__} has no call for the curves of several runs.")


def _points_in_database(store: Any, run_ids: Sequence[str], key: str) -> Iterable[tuple[str, int, int, float]]:
    # Imported here because a server is read without SQL.
    from mlflow.store.tracking.dbmodels.models import SqlMetric
    from sqlalchemy import select

    columns = (SqlMetric.run_uuid, SqlMetric.step, SqlMetric.timestamp, SqlMetric.value, SqlMetric.is_nan)
    with store.ManagedSessionMaker() as session:
        rows = session.execute(select(*columns).where(SqlMetric.key == key, SqlMetric.run_uuid.in_(run_ids))).all()
    return [(run, step, at_ms, math.nan if is_nan else value) for run, step, at_ms, value, is_nan in rows]


def _thin_out(points: Sequence[Point], max_points: int) -> Sequence[Point]:
    """Return at most `max_points` points, evenly spaced in the order of their steps, with the first and the last."""
    if len(points) <= max_points:
        return points
    ordered = sorted(points)
    return [ordered[at] for at in np.linspace(0, len(ordered) - 1, max_points).round().astype(int)]


def _sorted(points: Sequence[Point]) -> np.ndarray:
    """Return (step, milliseconds, value) in the order of the steps, with the latest point of each step."""
    rows = np.array(points, dtype=float).reshape(-1, 3)
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    # SQL stores replace infinity with the largest float.
    value = rows[:, 2]
    rows[:, 2] = np.where(np.abs(value) >= sys.float_info.max, np.copysign(math.inf, value), value)
    return rows[np.append(np.diff(rows[:, 0]) != 0, True)] if len(rows) else rows
