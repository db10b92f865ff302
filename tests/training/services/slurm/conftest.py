"""Slurm's service on a cluster whose daemons a test leaves alone, or on one of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.services.following import ended
from tests.support.services.harness import SlurmHarness
from tests.support.services.slurm_cluster import SlurmCluster
from training.services.launcher import Job


@pytest.fixture(autouse=True)
def _real_processes(plain_interpreter: str) -> None:
    """Start real processes, because these tests are about processes and signals."""


@pytest.fixture
def harness(tmp_path: Path, shared_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmHarness]:
    """The service on the shared cluster. No job is left at the end."""
    harness = SlurmHarness(tmp_path, shared_cluster, monkeypatch)
    yield harness
    for each in harness.service.jobs(running_only=True):
        harness.service.stop(each["TrainingJobName"])
        ended(Job(harness.service, each["TrainingJobName"]))
    shared_cluster.wait_until_idle()


@pytest.fixture
def own(tmp_path: Path, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmHarness:
    """The service on a cluster of the test's own, `cluster`. What is left of its jobs is killed with it."""
    return SlurmHarness(tmp_path, cluster, monkeypatch)
