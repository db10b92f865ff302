"""Fixtures: Slurm clusters. Tests of Slurm carry the marker `slurm`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.services.slurm_cluster import SlurmCluster, slurm_is_installed


@pytest.fixture(scope="session")
def slurm_installed() -> None:
    """Slurm's programs. If they are not there, the tests are skipped; in .ci/run that is an error."""
    if not slurm_is_installed():
        if os.environ.get("TRAINFARE_CI"):
            pytest.fail("Slurm is not installed: run `make .slurm/.installed`")
        pytest.skip("Slurm is not installed: run `make .slurm/.installed`")


@pytest.fixture(scope="session")
def shared_cluster(slurm_installed: None) -> Iterator[SlurmCluster]:
    """A cluster of one node for the whole run. Tests that use it leave its daemons alone."""
    with SlurmCluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(slurm_installed: None) -> Iterator[SlurmCluster]:
    """A cluster of one node for one test, which may kill its daemons."""
    with SlurmCluster() as cluster:
        yield cluster
