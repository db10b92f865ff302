"""Histories of many runs, read in few calls, equal those that are read run by run."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric

from tests.support.tracking.forwarding import Forwarding
from tests.support.tracking.tracked import STARTED_SECONDS
from tracking.queries.metric_histories import curve_table, histories

START_MS = int(STARTED_SECONDS * 1000)
BULK, SINGLE = "/metrics/get-history-bulk-interval", "/metrics/get-history"


def several(tracked: Any, count: int) -> list[str]:
    """Add runs of different lengths: run number i has i points of loss, some of which are not finite."""
    odd = {3: math.nan, 4: math.inf, 5: -math.inf}
    return [tracked.job("none", i, losses=[odd.get(i, 10.0 * i + point) for point in range(i)]) for i in range(count)]


def starts(runs: list[str]) -> dict[str, float]:
    return dict.fromkeys(runs, STARTED_SECONDS)


def assert_read(tables: dict[str, pd.DataFrame], runs: list[str]) -> None:
    assert list(tables) == runs
    assert [len(tables[run_id]) for run_id in runs] == list(range(len(runs)))
    assert list(tables[runs[2]]["value"]) == [20.0, 21.0]
    assert list(tables[runs[2]]["samples"]) == [100.0, 200.0]
    assert list(tables[runs[2]]["billable_seconds"]) == [2.0, 4.0]
    assert math.isnan(tables[runs[3]]["value"].iloc[0])
    assert list(tables[runs[4]]["value"]) == [math.inf] * 4
    assert list(tables[runs[5]]["value"]) == [-math.inf] * 5


def test_many_runs_are_read_from_a_database(tracked: Any) -> None:
    runs = several(tracked, 8)
    tracked.client.delete_run(runs[6])  # a deleted run still has its curve
    assert_read(histories(tracked.client, starts(runs), ["loss", "epoch"]), runs)
    assert histories(tracked.client, {}, ["loss"]) == {}
    assert len(histories(tracked.client, starts(runs[7:]), [])[runs[7]]) == 0


def test_a_long_curve_is_thinned_evenly_with_both_ends(tracked: Any) -> None:
    """Samples reported at other steps, too, still belong to their own steps."""
    run_id = tracked.job("none", losses=[float(step) for step in range(1, 101)])
    more = [Metric("samples", 100.0 * step, START_MS + 2000 * step, step) for step in range(101, 141)]
    tracked.client.log_batch(run_id, more)
    curve = histories(tracked.client, {run_id: STARTED_SECONDS}, ["loss"], max_points=10)[run_id]
    assert len(curve) == 10
    assert (curve["step"].iloc[0], curve["step"].iloc[-1]) == (1, 100)
    assert curve["step"].diff().iloc[1:].tolist() == [11.0] * 9
    assert list(curve["value"]) == list(curve["step"].astype(float))
    assert list(curve["samples"]) == pytest.approx(list(100.0 * curve["step"]))


def test_a_step_trained_twice_keeps_its_later_point(tracked: Any) -> None:
    run_id = tracked.job("none", losses=[2.0, 1.5])
    again = [Metric("loss", 1.4, START_MS + 9000, 2), Metric("samples", 210, START_MS + 9000, 2)]
    tracked.client.log_batch(run_id, again)
    curve = histories(tracked.client, {run_id: STARTED_SECONDS}, ["loss"])[run_id]
    assert list(curve["value"]) == [2.0, 1.4]
    assert list(curve["samples"]) == [100.0, 210.0]


def test_samples_are_interpolated_between_steps() -> None:
    losses = [(step, START_MS, 1.0) for step in (1, 2, 3, 4, 5)]
    samples = [(2, START_MS, 20.0), (4, START_MS, 44.0)]
    interpolated = curve_table({"loss": losses, "samples": samples}, ["loss"], STARTED_SECONDS)["samples"]
    assert list(interpolated.dropna()) == [20.0, 32.0, 44.0]
    assert list(interpolated.isna()) == [True, False, False, False, True]
    assert curve_table({"loss": losses, "samples": []}, ["loss"], 0.0)["samples"].isna().all()


def test_a_server_is_called_for_many_runs_at_once(tracked_by_server: Any) -> None:
    runs = several(tracked_by_server, 23)
    with Forwarding(tracked_by_server.client.tracking_uri) as proxy:
        tables = histories(MlflowClient(proxy.url), starts(runs), ["loss", "epoch"])
        assert proxy.calls(BULK) == 6
        thinned = histories(MlflowClient(proxy.url), starts(runs[6:7]), ["loss"], max_points=3)[runs[6]]
        assert proxy.calls(SINGLE) == 0
    assert list(thinned["step"]) == [1, 3, 6]
    assert_read(tables, runs)


@pytest.mark.parametrize(
    ("status", "body"), [(404, b"<html>not tables</html>"), (403, b'{"error_code": "PERMISSION_DENIED"}')]
)
def test_a_server_without_that_call_is_read_run_by_run(tracked_by_server: Any, status: int, body: bytes) -> None:
    runs = several(tracked_by_server, 7)
    with Forwarding(tracked_by_server.client.tracking_uri, BULK, status, body) as proxy:
        client = MlflowClient(proxy.url)
        tables = histories(client, starts(runs), ["loss", "epoch"])
        assert proxy.calls(SINGLE) == 7 * 3
        assert_read(tables, runs)
        thinned = histories(client, starts(runs), ["loss"], max_points=3)[runs[6]]
    assert list(thinned["step"]) == [1, 3, 6]
