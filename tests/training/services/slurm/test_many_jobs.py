"""A group of many small jobs on one cluster: each runs once, and one list of Slurm's jobs serves them all."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from experiments.running.scheduler import run_jobs
from tests.support.services.harness import SlurmHarness
from tests.support.services.slurm_cluster import SlurmCluster
from tests.support.tracking.planned_jobs import planned_as
from tracking.groups.group import open_group
from tracking.recording.recorder import job_runs
from tracking.server.store import open_store
from training.contract.job_spec import JobSpec
from training.services.slurm.service import LISTING_SECONDS

pytestmark = [pytest.mark.slurm, pytest.mark.usefixtures("plain_interpreter")]

JOBS, PARALLEL = 100, 16


@pytest.fixture
def calls(cluster: SlurmCluster, tmp_path: Path) -> Path:
    """File with a line for each call of `sbatch` and `squeue`, once `wrappers` beside it is first on the PATH."""
    calls, wrappers = tmp_path / "calls", tmp_path / "wrappers"
    wrappers.mkdir()
    for program in ("sbatch", "squeue"):
        found = shutil.which(program, path=cluster.environment["PATH"])
        (wrappers / program).write_text(f'#!/bin/sh\necho {program} >> {calls}\nexec {found} "$@"\n')
        (wrappers / program).chmod(0o755)
    return calls


@pytest.mark.timeout(300)
def test_a_hundred_jobs_run_once_each(
    cluster: SlurmCluster, calls: Path, tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = SlurmHarness(tmp_path, cluster, monkeypatch).service
    monkeypatch.setenv("PATH", f"{tmp_path / 'wrappers'}:{cluster.environment['PATH']}")
    source, ran = tmp_path / "source", tmp_path / "ran"
    source.mkdir()
    (source / "train.py").write_text(
        f"import os\nopen({str(ran)!r}, 'a').write(os.environ['TRAINING_JOB_NAME'] + '\\n')\nprint('ran')\n"
    )
    jobs = [
        planned_as(
            JobSpec(
                name=f"many-{number}",
                hyperparameters={},
                channels={},
                source_uri=source.as_uri(),
                output_uri=(tmp_path / "output").as_uri(),
                instance_type="slurm:cpu",
                environment={"TRAINFARE_CORES": "1"},
            ),
            "none",
            repeat=number,
        )
        for number in range(JOBS)
    ]
    store = open_store(tracking_uri)
    group = open_group(store, experiment_name="many", verb="compare", key="k")
    began = time.monotonic()
    outcomes = run_jobs(store, service, group, jobs, parallel=PARALLEL, echo=lambda _: None)
    seconds = time.monotonic() - began
    counts = Counter(calls.read_text().split())
    assert [outcome.failure for outcome in outcomes] == [None] * JOBS
    names = sorted(job.spec.name for job in jobs)
    assert sorted(ran.read_text().split()) == names
    assert counts["sbatch"] == JOBS
    assert sorted(job_runs(store, group)) == names
    listed = cluster.run("squeue", "--noheader", "--states=all", "--format=%j").split()
    assert Counter(listed) == dict.fromkeys(names, 1)
    # At most one for each job when it starts, and one for all jobs at a time. The first may be made at once.
    assert counts["squeue"] <= JOBS + 1 + seconds / LISTING_SECONDS
