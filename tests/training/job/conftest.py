"""Fixtures for jobs that train a random two-layer model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.job.job_process import Job, write_channel, write_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer BERT, in a folder whose name has quotes and an accent."""
    folder = write_tiny_model(tmp_path_factory.mktemp("model with 'quotes' é"))
    (folder / "vocab.txt").write_text("the vocabulary")
    return folder


@pytest.fixture
def job(tmp_path: Path, tiny_model: Path) -> Job:
    return Job(tmp_path / "job", tiny_model)


@pytest.fixture
def new_job(tmp_path: Path, tiny_model: Path) -> Callable[[str], Job]:
    return lambda name: Job(tmp_path / name, tiny_model)


@pytest.fixture(scope="module")
def job_in(tiny_model: Path) -> Callable[[Path], Job]:
    """Return a function that makes a job in a given folder, for module-scoped fixtures."""
    return lambda folder: Job(folder, tiny_model)


@pytest.fixture
def channel_writer() -> Callable[..., None]:
    return write_channel
