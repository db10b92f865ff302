"""The environment with the oldest versions that the job supports, and jobs on channels staged by the newest."""

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
    """Python with the oldest versions. Without it, tests are skipped, or fail under .ci/run."""
    python = os.environ.get("TRAINFARE_OLDEST_PYTHON") or str(ROOT / ".venv-oldest" / "bin" / "python")
    if not Path(python).exists():
        message = f"{python} is missing: build it with `make test-oldest`, or set TRAINFARE_OLDEST_PYTHON"
        if os.environ.get("TRAINFARE_CI"):
            pytest.fail(message)
        pytest.skip(message)
    return python


@pytest.fixture
def job_of(tmp_path: Path) -> Callable[[str, str], Job]:
    """Return a function that makes a task's job in a folder with the given name. A test's jobs share one staging."""

    def make(task: str, name: str) -> Job:
        return staged_job(tmp_path / name, EXAMPLES[task](tmp_path), tmp_path / "home")

    return make
