"""Fixtures: Slurm clusters."""

from __future__ import annotations

from tests.support.services.slurm_fixtures import cluster as cluster
from tests.support.services.slurm_fixtures import shared_cluster as shared_cluster
from tests.support.services.slurm_fixtures import slurm_installed as slurm_installed
