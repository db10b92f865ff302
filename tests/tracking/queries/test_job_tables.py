"""Tables read from the tracking server hold exactly what the runs hold."""

import math
import sqlite3
from typing import Any

import pytest
from mlflow import MlflowClient

from tracking.groups.group import find_group
from tracking.queries import job_tables
from tracking.queries.job_tables import counted_run
from tracking.server.store import Store
from training.contract.errors import TrackingError


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


def test_a_field_that_only_another_arm_sets_has_no_value(tracked: Any) -> None:
    tracked.job("none", params={"machine.devices": 2, "hp.max_steps": "None"})
    row = job_tables.jobs(tracked.client, tracked.group).iloc[0]
    assert row["machine_devices"] == "2"
    assert "hp_max_steps" not in row


def test_missing_and_infinite_values_and_empty_groups(tracked: Any) -> None:
    metrics = {"eval_loss": math.nan, "train_loss": math.inf, "loss": -math.inf}
    tracked.job("none", status="FAILED", tags={"platform.failure_class": "OutOfMemory"}, metrics=metrics)
    row = job_tables.jobs(tracked.client, tracked.group).iloc[0]
    assert row["failure_class"] == "OutOfMemory"
    assert math.isnan(row["cost_billable_seconds"])
    assert math.isnan(row["hp_batch_size"])
    assert math.isnan(row["eval_loss"])
    assert (row["train_loss"], row["loss"], row["diverged"]) == (math.inf, -math.inf, "true")
    tracked.job("none", 1, metrics={"eval_loss": 0.5})
    assert job_tables.jobs(tracked.client, tracked.group)["diverged"].notna().tolist() == [True, False]
    empty = job_tables.jobs(tracked.client, "no such group")
    assert len(empty) == 0
    assert {"run_id", "arm", "cost_billable_seconds"} <= set(empty.columns)


def test_jobs_of_a_group_are_read_in_order_page_by_page(tracked: Any) -> None:
    run_ids = [tracked.job("none", repeat) for repeat in range(3)]
    tracked.trained("none", 1, 80.0, tags={"platform.group": "another"})
    tracked.trained("none", 2, 80.0, tags={"platform.kind": "group"})
    tracked.client.delete_run(tracked.trained("none", 3, 80.0))
    assert list(job_tables.jobs(tracked.client, tracked.group)["run_id"]) == run_ids
    query = job_tables.tagged(kind="job", group=tracked.group)
    runs = job_tables.runs_where(tracked.client, query, [tracked.experiment_id], page_runs=2)
    assert [run.info.run_id for run in runs] == run_ids
    assert job_tables.runs_where(tracked.client, query, []) == []


def test_a_silent_tracking_server_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    client = MlflowClient("http://127.0.0.1:9")
    with pytest.raises(TrackingError, match=r"list the runs where .* 'g'"):
        job_tables.jobs(client, "g")
    with pytest.raises(TrackingError, match=r"environment\.json of run r: nothing listens at this address"):
        job_tables.json_artifact(client, "r", "environment.json")


def test_the_environment_is_empty_without_its_artifact(tracked: Any) -> None:
    run_id = tracked.job("none")
    assert job_tables.json_artifact(tracked.client, run_id, "environment.json") == {}
    tracked.client.log_text(run_id, '{"python": "3.11"}', "environment.json")
    assert job_tables.json_artifact(tracked.client, run_id, "environment.json") == {"python": "3.11"}
    tracked.client.log_text(run_id, "[broken", "environment.json")
    assert job_tables.json_artifact(tracked.client, run_id, "environment.json") == {}


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


def test_an_ended_run_counts_before_an_open_one_and_then_the_oldest(tracked: Any) -> None:
    same = {"platform.job_name": "job"}
    opened = tracked.job("none", status=None, tags=same)
    first, second = (tracked.job("none", tags=same) for _ in range(2))
    runs = [tracked.client.get_run(each) for each in (second, opened, first)]
    assert counted_run(runs).info.run_id in (first, second)  # both may start in the same millisecond
    assert counted_run(runs[1:]).info.run_id == first
    assert counted_run([runs[1]]).info.run_id == opened
