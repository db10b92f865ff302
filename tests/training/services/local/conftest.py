"""A local service for each test, whose jobs are stopped at the end of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.services.following import ended
from tests.support.services.harness import LocalHarness
from training.services.launcher import Job


@pytest.fixture(autouse=True)
def _real_processes(plain_interpreter: str) -> None:
    """Start real processes, because these tests are about processes and signals."""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LocalHarness]:
    harness = LocalHarness(tmp_path)
    yield harness
    for each in harness.service.jobs(running_only=True):
        harness.service.stop(each["TrainingJobName"])
        ended(Job(harness.service, each["TrainingJobName"]))
