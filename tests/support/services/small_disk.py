"""A real small file system, in a mount namespace of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.conftest import ROOT

SPACE = "8m"
CAN_MOUNT = os.getuid() == 0 and (
    subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
)

JOB = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.support.services.following import ended, until_unsupervised
from tests.support.services.harness import LocalHarness
from training.services.launcher import submit

harness = LocalHarness(Path({folder!r}))
{body}
"""


def on_small_disk(tmp_path: Path, body: str) -> str:
    """Run the body in a process whose folder is a small file system, and return what it prints."""
    folder = tmp_path / "disk"
    folder.mkdir()
    (tmp_path / "job.py").write_text(JOB.format(root=str(ROOT), folder=str(folder), body=textwrap.dedent(body)))
    mounted = f'mount -t tmpfs -o size={SPACE} tmpfs "$1" && exec "$2" "$3"'
    command = ["unshare", "-m", "sh", "-c", mounted, "sh", str(folder), sys.executable, str(tmp_path / "job.py")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=480, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout
