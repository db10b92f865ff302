"""Fixtures of hand-made experiments, for tests of the overview."""

from __future__ import annotations

import pytest
from mlflow import MlflowClient

from tests.support.reports.made_experiments import Experiment, made_experiment
from tests.support.tracking.tracked import tracked, tracked_by_server

__all__ = ["empty", "made", "tracked", "tracked_by_server"]


@pytest.fixture
def empty(tracking_uri: str) -> Experiment:
    """An MLflow experiment without runs."""
    return Experiment(MlflowClient(tracking_uri))


@pytest.fixture
def made(empty: Experiment) -> Experiment:
    """Experiment with groups of every kind, see `made_experiment`."""
    return made_experiment(empty)
