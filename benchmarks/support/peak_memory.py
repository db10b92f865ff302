"""Run a module in a separate process and measure its peak memory.

The peak that `wait4` reports for a child includes its parent's memory at the start. The process therefore reads its own
peak from `/proc`.
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

from tracking.recording.run_artifacts import ROOT


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run of a module."""

    peak_mib: float
    """Peak resident memory (Linux's VmHWM)."""
    stdout: str


def run_measured(module: str, arguments: Sequence[str], environment: dict[str, str]) -> Measured:
    """Run `python -m module arguments`, with these environment variables added to this process's variables."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "peak"
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.support.peak_memory", str(output), module, *arguments],
            cwd=ROOT,
            env=os.environ | environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(f"error: {module} failed:\n{done.stdout}\n{done.stderr}")
        return Measured(peak_mib=float(output.read_text()), stdout=done.stdout)


if __name__ == "__main__":
    output, *sys.argv = sys.argv[1:]
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    finally:
        status = Path("/proc/self/status").read_text()
        [kib] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
        Path(output).write_text(str(int(kib) / 1024))
