"""The official training toolkit in its own environment. `python -m tests.support.services.toolkit_env` creates it.

The toolkit pins old packages, so it cannot share our environment. Its environment is `.venv-toolkit` at the root; it is
created once and reused.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".venv-toolkit"
LOCK = Path(__file__).with_name("toolkit.lock")


def toolkit_command() -> list[str]:
    """Return the toolkit's `train` command. Create its environment if it does not exist."""
    FOLDER.mkdir(exist_ok=True)
    with FileLock(FOLDER / ".lock"):
        if not (FOLDER / ".complete").exists():
            _make()
    return [str(FOLDER / "bin" / "train")]


def _make() -> None:
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    install = [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    patient = ["--retries", "10", "--timeout", "60"]  # on a machine that runs other tests
    subprocess.run([*install, *patient, "--no-deps", "-r", str(LOCK)], check=True)
    (FOLDER / ".complete").touch()


if __name__ == "__main__":
    print(*toolkit_command())
