"""The environment of the oldest versions that the job promises, and jobs on channels staged by the newest."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.job.job_process import Job
from tests.support.oldest.examples import EXAMPLES
from tests.support.oldest.places import staged_job


@pytest.fixture(scope="session")
def oldest_python() -> str:
    """The Python with the oldest versions; tests skip where it is absent, and .ci/run makes that an error."""
    python = os.environ.get("TRAINFARE_OLDEST_PYTHON") or str(ROOT / ".venv-oldest" / "bin" / "python")
    if not Path(python).exists():
        message = f"{python} is absent: `make test-oldest` builds it, or TRAINFARE_OLDEST_PYTHON names another one"
        if os.environ.get("TRAINFARE_CI"):
            pytest.fail(message)
        pytest.skip(message)
    return python


@pytest.fixture
def job_of(tmp_path: Path) -> Callable[[str, str], Job]:
    """Makes a task's job in a folder of the given name; all of a test's jobs share one staging."""

    def make(task: str, name: str) -> Job:
        return staged_job(tmp_path / name, EXAMPLES[task](tmp_path), tmp_path / "home")

    return make
