"""The time until the demo's comparison reaches a verdict, alone and with less CPU time, and the disk space it takes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from benchmarks.support.command import environment_of
from benchmarks.support.neighbour import busy_processes
from benchmarks.support.results import Row, write
from benchmarks.tuning.cpu_quota import can_limit_cpus, half_of_the_cpu_time
from tracking.recording.run_description import ROOT

MAX_MINUTES = 5
MAX_MEGABYTES = 300
CONDITIONS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "undisturbed": nullcontext,
    "beside a busy process": lambda: busy_processes(1),
    "with half of the CPU time": half_of_the_cpu_time,
}


def run_demo(folder: Path) -> float:
    """Run the demo's comparison in a folder. Return the minutes until it ends. Exit if it fails."""
    environment = environment_of(folder) | {"PYTHONPATH": str(ROOT)}
    started = time.monotonic()
    # MLflow writes artifacts into the working directory, and they count towards the disk space.
    done = subprocess.run([sys.executable, "-m", "experiments", "compare"], cwd=folder, env=environment)
    if done.returncode:
        sys.exit("error: the comparison failed; see its output above")
    return (time.monotonic() - started) / 60


def disk_megabytes(folder: Path) -> float:
    """Return the disk space taken by all files in a folder, in megabytes."""
    return sum(file.lstat().st_blocks * 512 for file in folder.rglob("*")) / 1e6


def main() -> None:
    """Run the comparison once under each condition that this machine allows."""
    rows, notes = (
        [],
        ["The demo as shipped, already installed, with MLflow's database in a file. One run each."],
    )
    for name, condition in CONDITIONS.items():
        if condition is half_of_the_cpu_time and not can_limit_cpus():
            notes.append(f"'{name}' was not run: it needs permission to set CPU quotas in cgroups v1.")
            continue
        with tempfile.TemporaryDirectory() as path, condition():
            minutes, size = run_demo(Path(path)), disk_megabytes(Path(path))
        target = f"at most {MAX_MINUTES}"
        is_in_time = minutes <= MAX_MINUTES
        rows.append(Row(name=f"{name}: time to the verdict", value=minutes, unit="min", target=target, met=is_in_time))
        target = f"at most {MAX_MEGABYTES}"
        rows.append(Row(name=f"{name}: disk space", value=size, unit="MB", target=target, met=size <= MAX_MEGABYTES))
    write("first_result", rows, notes)


if __name__ == "__main__":
    main()
