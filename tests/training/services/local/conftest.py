"""A local service of each test's own, on which nothing runs on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.services.following import ended
from tests.support.services.places import LocalPlace
from training.services.launcher import Job


@pytest.fixture(autouse=True)
def _as_people_start_it(plain_interpreter: str) -> None:
    """Processes and signals are what is tested here: nothing stands between."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LocalPlace]:
    place = LocalPlace(tmp_path)
    yield place
    for each in place.service.jobs(running_only=True):
        place.service.stop(each["TrainingJobName"])
        ended(Job(place.service, each["TrainingJobName"]))
