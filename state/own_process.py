"""Start a module of ours in a process of its own, which the user's folder and variables do not change."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]


def own_process(module: str, *arguments: str, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the arguments `args`, `cwd` and `env` of `subprocess.Popen` that run `module` of this repository.

    A module of the user's folder, such as `contextlib.py` or `training/`, must not replace Python's or ours. So the
    process imports from the repository, neither from the current folder nor from the user's PYTHONPATH. The program
    must not contain relative paths of the user.
    """
    return {
        "args": [sys.executable, "-P", "-m", module, *arguments],
        "cwd": REPOSITORY,
        "env": {**environment, "PYTHONPATH": str(REPOSITORY)},
    }
