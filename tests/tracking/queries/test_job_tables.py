"""Tables read from the tracking server hold exactly what the runs hold."""

import math
import sqlite3
from typing import Any

import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric

from tracking.groups.group import find_group
from tracking.queries import job_tables
from tracking.server.store import Store
from training.contract.errors import InputError, TrackingError

START_MS = 1_700_000_000_000


def test_a_row_holds_tags_parameters_and_metrics(tracked: Any) -> None:
    run_id = tracked.trained("ind'uctor <é>", 1, 80.5, tags={"platform.cache_state": "warm"})
    table = job_tables.jobs(tracked.client, tracked.group)
    assert len(table) == 1
    row = table.iloc[0]
    assert (row["run_id"], row["status"], row["arm"]) == (run_id, "FINISHED", "ind'uctor <é>")
    assert (row["cache_state"], row["repeat"], row["baseline"]) == ("warm", "1", "false")
    assert (row["hp_batch_size"], row["hp_learning_rate"], row["hp_seed"]) == (16.0, 5e-5, "1")
    assert (row["cost_billable_seconds"], row["time_warmup_seconds"], row["samples"]) == (80.5, 1.0, 2000.0)
    assert row["training_start_time"] == 1_700_000_000.0


def test_runs_of_earlier_versions_are_read_under_the_names_of_today(tracked: Any) -> None:
    # What a version before `batch_size` logged, and a script that has an argument of the old name beside today's.
    earlier = {"hp.per_device_batch_size": 8, "hp.per_device_eval_batch_size": 32, "hp.learning_rate": 1e-4}
    tracked.job("none", 0, params=earlier)
    tracked.job("none", 1, params={"hp.per_device_batch_size": 8, "hp.batch_size": 16})
    table = job_tables.jobs(tracked.client, tracked.group)
    assert list(table["hp_batch_size"]) == [8.0, 16.0]
    assert table["hp_eval_batch_size"][0] == "32"
    assert not [name for name in table.columns if "per_device" in name]


def test_missing_values_are_nan_or_none(tracked: Any) -> None:
    tracked.job("none", status="FAILED", tags={"platform.failure_class": "OutOfMemory"})
    row = job_tables.jobs(tracked.client, tracked.group).iloc[0]
    assert row["failure_class"] == "OutOfMemory"
    assert row["failure_message"] is None
    assert math.isnan(row["cost_billable_seconds"])
    assert math.isnan(row["hp_batch_size"])


def test_jobs_of_other_groups_are_left_out(tracked: Any) -> None:
    expected = tracked.trained("none", 0, 80.0)
    tracked.trained("none", 1, 80.0, tags={"platform.group": "another"})
    tracked.trained("none", 2, 80.0, tags={"platform.kind": "group"})
    tracked.client.delete_run(tracked.trained("none", 3, 80.0))
    assert list(job_tables.jobs(tracked.client, tracked.group)["run_id"]) == [expected]
    assert list(job_tables.jobs(tracked.client, tracked.group, [tracked.experiment_id])["run_id"]) == [expected]


def test_all_pages_are_read_in_order(tracked: Any) -> None:
    run_ids = [tracked.job("none", repeat) for repeat in range(5)]
    assert list(job_tables.jobs(tracked.client, tracked.group, page_runs=2)["run_id"]) == run_ids


def test_a_group_without_jobs_is_an_empty_table_with_all_columns(tracked: Any) -> None:
    table = job_tables.jobs(tracked.client, "no such group")
    assert len(table) == 0
    assert {"run_id", "arm", "cost_billable_seconds"} <= set(table.columns)
    assert len(job_tables.jobs(tracked.client, tracked.group, [])) == 0


def test_a_group_may_hold_one_kind_of_quote(tracked: Any) -> None:
    for group in ("it's", 'the "one"'):
        tracked.trained("none", 0, 80.0, tags={"platform.group": group})
        assert len(job_tables.jobs(tracked.client, group)) == 1
    with pytest.raises(InputError, match="both kinds of quotes"):
        job_tables.jobs(tracked.client, 'it\'s "one"')


def test_infinite_numbers_are_read_as_they_were_logged(tracked: Any) -> None:
    tracked.job("none", metrics={"eval_loss": math.nan, "train_loss": math.inf, "loss": -math.inf})
    row = job_tables.jobs(tracked.client, tracked.group).iloc[0]
    assert math.isnan(row["eval_loss"])
    assert (row["train_loss"], row["loss"]) == (math.inf, -math.inf)


def test_a_silent_tracking_server_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    client = MlflowClient("http://127.0.0.1:9")
    with pytest.raises(TrackingError, match=r"list the runs where .* 'g'"):
        job_tables.jobs(client, "g")
    with pytest.raises(TrackingError, match="the curves of run r"):
        job_tables.history(client, "r", ["loss"])
    with pytest.raises(TrackingError, match=r"environment\.json of run r: nothing listens at this address"):
        job_tables.environment(client, "r")


def test_history_counts_samples_and_billable_seconds(tracked: Any) -> None:
    run_id = tracked.job("none", losses=[2.0, 1.5, math.nan])
    expected = pd.DataFrame(
        {
            "step": [1, 2, 3],
            "samples": [100.0, 200.0, 300.0],
            "billable_seconds": [2.0, 4.0, 6.0],
            "key": ["loss"] * 3,
            "value": [2.0, 1.5, math.nan],
        }
    )
    pd.testing.assert_frame_equal(job_tables.history(tracked.client, run_id, ["loss"]), expected)
    later = job_tables.history(tracked.client, run_id, ["loss"], 1_700_000_001.0)
    assert list(later["billable_seconds"]) == [1.0, 3.0, 5.0]


def test_history_of_a_step_trained_twice_keeps_the_later_point(tracked: Any) -> None:
    run_id = tracked.job("none", losses=[2.0, 1.5])
    tracked.client.log_batch(
        run_id, [Metric("loss", 1.4, START_MS + 9000, 2), Metric("samples", 200, START_MS + 9000, 2)]
    )
    table = job_tables.history(tracked.client, run_id, ["loss"])
    assert list(table["value"]) == [2.0, 1.4]
    assert list(table["billable_seconds"]) == [2.0, 9.0]


def test_history_without_points_or_start(tracked: Any) -> None:
    run_id = tracked.job("none", losses=[2.0], tags={"platform.training_start_time": "soon"})
    assert len(job_tables.history(tracked.client, run_id, ["no such metric"])) == 0
    assert math.isnan(job_tables.history(tracked.client, run_id, ["loss"])["billable_seconds"][0])


def test_the_environment_is_empty_without_its_artifact(tracked: Any) -> None:
    run_id = tracked.job("none")
    assert job_tables.environment(tracked.client, run_id) == {}
    tracked.client.log_text(run_id, '{"python": "3.11"}', "environment.json")
    assert job_tables.environment(tracked.client, run_id) == {"python": "3.11"}
    tracked.client.log_text(run_id, "[broken", "environment.json")
    assert job_tables.environment(tracked.client, run_id) == {}


def test_a_group_is_found_beyond_the_first_page_of_experiments(tracked: Any) -> None:
    """MLflow returns 1,000 experiments at a time, the newest first."""
    tags = {"platform.kind": "group", "platform.group": "g-1", "platform.group_state": "closed"}
    run_id = tracked.client.create_run(tracked.experiment_id, tags=tags).info.run_id
    with sqlite3.connect(tracked.client.tracking_uri.removeprefix("sqlite:///")) as database:
        newest = 1 + database.execute("SELECT max(creation_time) FROM experiments").fetchone()[0]
        rows = [(1000 + i, f"e{i}", "active", newest + i, newest + i) for i in range(1001)]
        columns = "experiment_id, name, lifecycle_stage, creation_time, last_update_time"
        database.executemany(f"INSERT INTO experiments ({columns}) VALUES (?, ?, ?, ?, ?)", rows)
    database.close()
    assert find_group(Store(tracked.client), group_id="g-1", experiment_name="").run_id == run_id
