"""The official training toolkit in an environment of its own: `python -m tests.support.services.toolkit_env` makes it.

It cannot share ours: it pins old packages. Made once, in `.venv-toolkit` at the root, and used again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".venv-toolkit"
TOOLKIT = "sagemaker-training==5.1.4"
# What it imports to run a script; its list also has numpy and scipy, which serve encoders that are not used here.
NEEDED = ["boto3", "gevent", "inotify_simple==1.2.1", "paramiko", "protobuf", "psutil", "retrying", "six", "werkzeug"]


def toolkit_command() -> list[str]:
    """Return the toolkit's `train` command, having made its environment if it is not there."""
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
