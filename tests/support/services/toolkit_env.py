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
TOOLKIT = "sagemaker-training==5.1.4"
# Packages that the toolkit imports to run a script. It also requires numpy and scipy, for unused encoders.
NEEDED = ["boto3", "gevent", "inotify_simple==1.2.1", "paramiko", "protobuf", "psutil", "retrying", "six", "werkzeug"]


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
    subprocess.run([*install, "--no-deps", TOOLKIT], check=True)
    subprocess.run([*install, *NEEDED], check=True)
    (FOLDER / ".complete").touch()


if __name__ == "__main__":
    print(*toolkit_command())
