"""The entry point blocks packages that would only slow the start down."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.job.job_process import train_py

CODE = """
import os, sys
sys.path.insert(0, sys.argv[1])
import train
from training.job.compilation.lean_imports import UNUSED
print([name for name in UNUSED if sys.modules.get(name, "not blocked") is not None])
print(os.environ.get("GOMP_SPINCOUNT"), "torch" in sys.modules)
"""


def started(**variables: str) -> list[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    return subprocess.check_output(
        [sys.executable, "-c", CODE, str(Path(train_py()).parent)], text=True, env=clean | variables
    ).splitlines()


def test_the_entry_point_blocks_unused_packages_and_long_waits() -> None:
    """Waiting threads block soon, unless the user chose how they wait. OpenMP reads this when torch loads it."""
    assert started() == ["[]", "30000 False"]
    assert started(OMP_WAIT_POLICY="ACTIVE")[1] == "None False"
    assert started(GOMP_SPINCOUNT="7")[1] == "7 False"
