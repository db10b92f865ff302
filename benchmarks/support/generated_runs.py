"""A tracking database with thousands of generated runs like the recorder's, written directly to its tables."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from mlflow import MlflowClient
from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun, SqlTag

EXPERIMENT, COMPARED = "made", "made-compared"
JOBS, GROUPS = 10_000, 250
COMPARED_ARMS, COMPARED_REPEATS = 10, 20
PARAMETERS, METRICS, POINTS = 40, 20, 200
STARTED_MS = 1_760_000_000_000
MINUTE_MS = 60_000

Rows = dict[Any, list[dict[str, Any]]]
"""Rows by table."""

_METRICS = (
    "cost/billable_seconds", "cost/billable_instance_seconds", "cost/training_seconds", "cost/usd", "loss", "samples",
    "train_loss", "eval_loss", "eval_accuracy", "throughput/steady_samples_per_second",
    "throughput/end_to_end_samples_per_second", "time/load_seconds", "time/compile_seconds", "time/warmup_seconds",
    "time/train_steady_seconds", "time/eval_seconds", "time/save_seconds", "time/download_seconds",
    "memory/peak_allocated_gib", "epoch",
)  # fmt: skip


def create_database(folder: Path) -> MlflowClient:
    """Create an SQLite database with one experiment of 10,000 jobs in 250 groups. Return its client.

    One group has 200 jobs: ten arms with twenty repeats. Their curves of `loss` and `samples` have 200 points each.
    """
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    artifacts = (folder / "artifacts").as_uri()
    experiment_id = int(client.create_experiment(EXPERIMENT, artifact_location=artifacts))
    generator = random.Random(1)
    with client._tracking_client.store.engine.begin() as connection:
        for group in range(GROUPS):
            group_rows = _group_rows(experiment_id, group, generator)
            for run in group_rows[SqlRun]:
                run["artifact_uri"] = f"{artifacts}/{run['run_uuid']}/artifacts"
            for table, rows in group_rows.items():
                connection.execute(table.__table__.insert(), rows)
    return client


def _group_rows(experiment_id: int, group: int, generator: random.Random) -> Rows:
    rows: Rows = {table: [] for table in (SqlRun, SqlTag, SqlParam, SqlLatestMetric, SqlMetric)}
    is_compared = group == GROUPS - 1
    others = JOBS - COMPARED_ARMS * COMPARED_REPEATS
    jobs = COMPARED_ARMS * COMPARED_REPEATS if is_compared else _share(others, GROUPS - 1, group)
    id = COMPARED if is_compared else f"made-{group:04}"
    at_ms = STARTED_MS + 8 * 60 * MINUTE_MS * group
    parent = _run(rows, experiment_id, at_ms, "FINISHED", generator, _group_tags(id))
    for job in range(jobs):
        arm, repeat = divmod(job, COMPARED_REPEATS if is_compared else 4)
        status = "FINISHED" if is_compared or generator.random() < 0.9 else "FAILED"
        tags = _job_tags(id, parent, arm, repeat, at_ms)
        run = _run(rows, experiment_id, at_ms + job * MINUTE_MS, status, generator, tags)
        _add_parameters_and_metrics(rows, run, at_ms + job * MINUTE_MS, arm, repeat, generator, with_curves=is_compared)
    return rows


def _share(total: int, parts: int, part: int) -> int:
    """Return the size of part number `part` when `total` is divided into `parts` parts of nearly equal size."""
    return total * (part + 1) // parts - total * part // parts


def _run(
    rows: Rows, experiment_id: int, at_ms: int, status: str, generator: random.Random, tags: dict[str, str]
) -> str:
    run = UUID(int=generator.getrandbits(128)).hex
    rows[SqlRun].append(
        {
            "run_uuid": run,
            "name": tags.get("mlflow.runName", "run"),
            "source_type": "LOCAL",
            "user_id": "somebody",
            "status": status,
            "start_time": at_ms,
            "end_time": at_ms + MINUTE_MS,
            "lifecycle_stage": "active",
            "experiment_id": experiment_id,
        }
    )
    rows[SqlTag] += [{"key": key, "value": value, "run_uuid": run} for key, value in tags.items()]
    return run


def _group_tags(id: str) -> dict[str, str]:
    return {
        "mlflow.runName": "compare made",
        "mlflow.note.content": "**What the group answered**\n" * 40,
        "platform.kind": "group",
        "platform.group": id,
        "platform.group_key": "k" * 64,
        "platform.group_state": "closed",
        "platform.experiment": EXPERIMENT,
        "platform.verb": "compare",
        "platform.headline": "“arm 1” is cheaper: 20 % fewer billable seconds than “arm 0”.",
    }


def _job_tags(group: str, parent: str, arm: int, repeat: int, at_ms: int) -> dict[str, str]:
    return {
        "mlflow.runName": f"arm {arm} #{repeat}",
        "mlflow.note.content": "**arm**, repeat, on 1 x local\n" * 20,
        "mlflow.parentRunId": parent,
        "mlflow.user": "somebody",
        "platform.kind": "job",
        "platform.group": group,
        "platform.arm": f"arm {arm}",
        "platform.baseline": "true" if arm == 0 else "false",
        "platform.repeat": str(repeat),
        "platform.job_name": f"{group}-{arm}-{repeat}",
        "platform.compiler": "none",
        "platform.service": "local",
        "platform.instance_type": "local",
        "platform.image": "none",
        "platform.device": "1 x made processor",
        "platform.data_key": "d" * 32,
        "platform.status": "Completed",
        "platform.described": "true",
        "platform.cache_state": "off",
        "platform.training_start_time": repr(at_ms / 1000),
        "platform.price_source": "a table",
        "platform.price_date": "2026-11-01",
    }


def _add_parameters_and_metrics(
    rows: Rows, run: str, at_ms: int, arm: int, repeat: int, generator: random.Random, *, with_curves: bool
) -> None:
    parameters = {"hp.batch_size": 2**arm, "hp.learning_rate": 5e-5, "hp.seed": repeat}
    parameters |= {f"hp.option_{number}": f"value {number}" for number in range(PARAMETERS - len(parameters))}
    rows[SqlParam] += [{"key": key, "value": str(value), "run_uuid": run} for key, value in parameters.items()]
    slower = (1.0 - 0.04 * arm) * generator.uniform(0.97, 1.03)
    finals = dict.fromkeys(_METRICS, 100.0 * slower)
    finals |= {"samples": 20.0 * POINTS, "eval_loss": 0.4 * generator.uniform(0.99, 1.01), "eval_accuracy": 0.9}
    at_end = [_point(run, name, value, at_ms + MINUTE_MS, POINTS) for name, value in finals.items()]
    rows[SqlLatestMetric] += at_end
    rows[SqlMetric] += [point for point in at_end if not (with_curves and point["key"] in {"loss", "samples"})]
    rows[SqlMetric] += _curves(run, at_ms, slower, generator) if with_curves else []


def _curves(run: str, at_ms: int, slower: float, generator: random.Random) -> Iterator[dict[str, Any]]:
    for step in range(1, POINTS + 1):
        at = at_ms + int(400 * slower * step)
        yield _point(run, "loss", math.exp(-step / 60) + generator.uniform(0.3, 0.4), at, step)
        yield _point(run, "samples", 20.0 * step, at, step)


def _point(run: str, key: str, value: float, at_ms: int, step: int) -> dict[str, Any]:
    return {"key": key, "value": value, "timestamp": at_ms, "step": step, "is_nan": False, "run_uuid": run}
