"""Run a module as a process of its own, and learn the most memory that it held.

What `wait4` tells of a child begins with what its parent held when it was started, so the process reads its own record.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracking.recording.run_description import ROOT


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run of a module."""

    peak_mib: float
    """The most memory that it held (resident, Linux's VmHWM)."""
    stdout: str
    stderr: str


def run_measured(module: str, arguments: Sequence[str], environment: dict[str, str]) -> Measured:
    """Run `python -m module arguments` with these environment variables beside this process's own."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "peak"
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.support.peak_memory", str(told), module, *arguments],
            cwd=ROOT,
            env=os.environ | environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(f"error: {module} failed:\n{done.stdout}\n{done.stderr}")
        return Measured(peak_mib=float(told.read_text()), stdout=done.stdout, stderr=done.stderr)


def _peak_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    [kib] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kib) / 1024


def main(told: str, module: str, arguments: Sequence[str]) -> None:
    """Run the module and write what it held."""
    sys.argv = [module, *arguments]
    code: object = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    Path(told).write_text(str(_peak_mib()))
    sys.exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
