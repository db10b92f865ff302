"""Experiments with many cheap jobs that only print metrics, and the metric points that MLflow stores for them."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

import yaml

from tests.conftest import ROOT

KEYS = ("loss", "samples")
"""Metrics that each job prints at every step."""


def study(folder: Path, *, jobs: int, parallel: int, steps: int, pause: float) -> Path:
    """Write an experiment with `jobs` jobs on SageMaker. Each prints its loss about every `pause` seconds."""
    fields = {
        "script": {
            "source": str(ROOT / "tests" / "support" / "scripts" / "talking"),
            "entry_point": "talk.py",
            "hyperparameters": {"steps": steps, "pause": pause, "batch": "$batch_size", "seed": "$seed"},
            "metrics": {name: f"{name} ([0-9.]+)" for name in ("step", "samples", "loss", "eval_accuracy")},
        },
        "service": "sagemaker",
        "machine": {"instance_type": "ml.g5.xlarge"},
        "aws": {"role": "trainer", "prices": str(folder / "prices.json")},
        "compare": {
            "arms": [{"batch_size": 16}, {"batch_size": 64}],
            "repeats": jobs // 2,
            "stop": "never",
            "parallel": parallel,
        },
    }
    (folder / "prices.json").write_text('{"date": "2026-11-01", "usd_per_hour": {"ml.g5.xlarge": 1.408}}')
    path = folder / "talking.yaml"
    path.write_text(yaml.safe_dump(fields))
    return path


def points(database: Path) -> Counter[tuple[str, str, int]]:
    """Count the times MLflow stores each point of the jobs' curves, by run, metric name and step."""
    connection = sqlite3.connect(database, timeout=60.0)
    rows = connection.execute(
        "select m.run_uuid, m.key, m.step from metrics m join tags t on t.run_uuid = m.run_uuid"
        f" where t.key = 'platform.kind' and t.value = 'job' and m.key in {KEYS}"
    ).fetchall()
    connection.close()
    return Counter((run, key, step) for run, key, step in rows)
