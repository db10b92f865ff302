"""Verbs on a real Slurm cluster of this machine."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.end_to_end.conftest import CommandLine, text
from tests.support.services.slurm_cluster import SlurmCluster
from tests.support.services.slurm_fixtures import slurm_installed as slurm_installed
from tracking.queries.job_tables import tags_of

pytestmark = pytest.mark.slurm


@pytest.fixture
def cluster(slurm_installed: None, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """A cluster of two nodes, which the verbs reach."""
    with SlurmCluster(nodes=2) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        yield cluster


@pytest.mark.gate
def test_a_killed_comparison_of_partitions_resumes_and_judges_dollars(
    command_line: CommandLine, reviews: dict[str, object], cluster: SlurmCluster, tmp_path: Path
) -> None:
    """A node of one partition costs a tenth of the other's, for the same training."""
    prices = tmp_path / "prices.yaml"
    prices.write_text("date: 2026-11-01\nusd_per_hour: {cpu: 1.5, low: 0.15}\n")
    fields = reviews | {
        "service": "slurm",
        "slurm.prices": prices,
        "machine.cores": 1,
        "machine.max_run_seconds": 600,
        "compare.arms": "[{slurm.partition: cpu}, {slurm.partition: low}]",
        "compare.repeats": 2,
        "max_usd": 1,
    }
    plan = text(command_line("plan", fields))
    assert "slurm.partition cpu: 1 x slurm:cpu, 1 core, 1.5 USD per hour each (prices.yaml, 2026-11-01)" in plan
    assert "Slurm: --partition=low --cpus-per-task=1 --time=15 --nodes=1 --ntasks-per-node=1. Job 2 to start at" in plan
    launcher = command_line.start("compare", fields)
    assert launcher.stdout
    next(line for line in launcher.stdout if "repeat 1: started" in line)
    launcher.send_signal(signal.SIGKILL)
    launcher.communicate()
    done = command_line("compare", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = command_line.runs()
    assert Counter(run.data.tags["arm"] for run in runs) == {"slurm.partition cpu": 2, "slurm.partition low": 2}
    assert {tags_of(run)["platform.service"] for run in runs} == {"slurm"}
    names = cluster.run("squeue", "--noheader", "--states=all", "--format=%j").split()
    assert sorted(names) == sorted(run.data.tags["platform.job_name"] for run in runs)
    for run in runs:
        per_hour = 1.5 if run.data.tags["arm"] == "slurm.partition cpu" else 0.15
        assert run.data.metrics["cost/usd"] == pytest.approx(
            run.data.metrics["cost/billable_seconds"] * per_hour / 3600
        )
        assert run.data.metrics["time/queue_seconds"] >= 0
    verdicts = {run.data.tags["arm"]: run.data.tags["verdict"] for run in runs}
    # On a busy machine, two repeats may not suffice for more.
    assert verdicts["slurm.partition low"] in ("cheaper", "cheaper, quality not shown", "inconclusive")
    assert "fewer dollars than “slurm.partition cpu”" in text(done)


def test_two_nodes_train_together(command_line: CommandLine, reviews: dict[str, object], cluster: SlurmCluster) -> None:
    fields = reviews | {"service": "slurm", "machine.cores": 1, "machine.instance_count": 2}
    done = command_line("train", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = command_line.runs()
    metrics = run.data.metrics
    assert metrics["samples"] == 64
    losses = MlflowClient(command_line.uri).get_metric_history(run.info.run_id, "loss")
    assert [point.step for point in losses] == [1, 2, 3, 4]  # two processes with 8 rows each
    assert metrics["cost/billable_instance_seconds"] == pytest.approx(2 * metrics["cost/billable_seconds"])
