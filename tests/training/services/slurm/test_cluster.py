"""Test the clusters that the tests of Slurm start: jobs, kills of daemons, requeues and several nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.services.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.slurm


def job_of(cluster: SlurmCluster, job: str) -> dict[str, Any]:
    [found] = [each for each in json.loads(cluster.run("squeue", "--json"))["jobs"] if each["job_id"] == int(job)]
    return found


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the state was not reached in 60 s"
        time.sleep(0.1)


def submit(cluster: SlurmCluster, folder: Path, script: str, *options: str) -> str:
    output = f"--output={folder}/output"
    return cluster.run("sbatch", "--parsable", output, "--open-mode=append", *options, "--wrap", script).strip()


@pytest.mark.gate
def test_a_job_reports_its_exit_code(cluster: SlurmCluster, tmp_path: Path) -> None:
    job = submit(cluster, tmp_path, "exit 3")
    wait_for(lambda: job_of(cluster, job)["job_state"] == "FAILED")
    assert "ExitCode=3:0" in cluster.run("scontrol", "show", "job", job)


@pytest.mark.gate
def test_a_job_outlives_a_killed_slurmctld(cluster: SlurmCluster, tmp_path: Path) -> None:
    job = submit(cluster, tmp_path, f"echo started; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done; exit 5")
    wait_for(lambda: (tmp_path / "output").exists() and job_of(cluster, job)["job_state"] == "RUNNING")
    cluster.wait_until_saved(job)
    cluster.kill("slurmctld")
    cluster.start("slurmctld")
    assert job_of(cluster, job)["job_state"] == "RUNNING"
    (tmp_path / "go").touch()
    wait_for(lambda: job_of(cluster, job)["job_state"] == "FAILED")
    assert (tmp_path / "output").read_text() == "started\n"


def test_a_job_outlives_a_killed_slurmd(cluster: SlurmCluster, tmp_path: Path) -> None:
    job = submit(cluster, tmp_path, f"echo started; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done")
    wait_for((tmp_path / "output").exists)
    cluster.kill("slurmd-node1")
    cluster.start("slurmd-node1")
    (tmp_path / "go").touch()
    wait_for(lambda: job_of(cluster, job)["job_state"] == "COMPLETED")


RESTARTS = "echo restart ${SLURM_RESTART_COUNT-none}; [ ${SLURM_RESTART_COUNT-0} = 1 ] || exec sleep 60"


def test_a_requeued_job_runs_again(cluster: SlurmCluster, tmp_path: Path) -> None:
    job = submit(cluster, tmp_path, RESTARTS)
    wait_for(lambda: (tmp_path / "output").exists() and "none" in (tmp_path / "output").read_text())
    cluster.run("scontrol", "requeue", job)
    wait_for(lambda: job_of(cluster, job)["job_state"] == "COMPLETED")
    assert "restart 1\n" in (tmp_path / "output").read_text()


def test_a_job_of_high_preempts_one_of_low(cluster: SlurmCluster, tmp_path: Path) -> None:
    low = submit(cluster, tmp_path, "exec sleep 60", "--partition=low", "--cpus-per-task=8")
    wait_for(lambda: job_of(cluster, low)["job_state"] == "RUNNING")
    high = submit(cluster, tmp_path, "true", "--partition=high", "--cpus-per-task=8")
    wait_for(lambda: job_of(cluster, high)["job_state"] == "COMPLETED")
    assert job_of(cluster, low)["restart_cnt"] == 1


@pytest.mark.gate
def test_two_clusters_run_at_once_and_leave_no_process(cluster: SlurmCluster, tmp_path: Path) -> None:
    with SlurmCluster(nodes=2) as other:
        job = submit(other, tmp_path, "echo $SLURM_JOB_NODELIST; sleep 60", "--nodes=2")
        wait_for(lambda: (tmp_path / "output").exists() and (tmp_path / "output").read_text() == "node[1-2]\n")
        assert job_of(other, job)["job_state"] == "RUNNING"
        assert json.loads(cluster.run("squeue", "--json"))["jobs"] == []
    assert not other.folder.exists()
    left = [each.info for each in psutil.process_iter(["cmdline", "cwd"]) if str(other.folder) in str(each.info)]
    assert left == []
