"""Cost of following many SageMaker jobs with one launcher: API calls, CPU, memory, and lost or repeated points.

The account is the tests' fake in a separate process. It serves SageMaker's API and really runs each job.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.results import Row, write
from tests.support.aws.serve import Served, served
from tests.support.aws.talking import KEYS, points, study
from tracking.recording.run_description import ROOT

JOBS = int(os.environ.get("BENCH_JOBS", 200))
STEPS = 120
PAUSE_SECONDS = 1.0
WINDOW_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Followed:
    """Measurements of one command, taken from the outside."""

    wall_seconds: float
    cpu_seconds: float
    """CPU time of the launcher and its child processes."""
    memory_mib: float
    """Peak memory of the launcher."""
    calls: list[tuple[float, str]]
    """Time (monotonic, seconds) and operation of each API call."""
    jobs: list[str]
    """Names of the jobs created."""


def follow(folder: Path, account: Served) -> Followed:
    """Run `compare` with all jobs in parallel, and measure it."""
    environment = (
        os.environ
        | account.variables
        | {
            "TRAINFARE_HOME": str(folder / "home"),
            "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }
    )
    path = study(folder, jobs=JOBS, parallel=JOBS, steps=STEPS, pause=PAUSE_SECONDS)
    command = [sys.executable, "-m", "experiments", "compare", "--experiment", str(path)]
    with (folder / "launcher.txt").open("wb") as log:
        started = time.monotonic()
        launcher = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(launcher.pid, 0)
        launcher.returncode = os.waitstatus_to_exitcode(status)
    wall_seconds = time.monotonic() - started
    if launcher.returncode:
        sys.exit(f"error: the comparison failed:\n{(folder / 'launcher.txt').read_text()[-4000:]}")
    return Followed(
        wall_seconds=wall_seconds,
        cpu_seconds=used.ru_utime + used.ru_stime,
        memory_mib=used.ru_maxrss / 1024,
        calls=[(at, operation) for at, operation in account.ask("calls")],
        jobs=account.ask("jobs"),
    )


def busiest(times: Sequence[float]) -> float:
    """Return the calls per second in the busiest window of `WINDOW_SECONDS`."""
    max_calls, first = 0, 0
    for last, at in enumerate(times):
        while times[first] < at - WINDOW_SECONDS:
            first += 1
        max_calls = max(max_calls, last - first + 1)
    return max_calls / WINDOW_SECONDS


def main() -> None:
    """Follow all jobs with one command, and write the measurements to a file."""
    with tempfile.TemporaryDirectory() as name, served(Path(name) / "account") as account:
        done, logged = follow(Path(name), account), points(Path(name) / "mlflow.db")
    created = [at for at, operation in done.calls if operation == "CreateTrainingJob"]
    started = [at for at, _ in done.calls if at <= created[-1]]
    following = [at for at, _ in done.calls if at > created[-1]]
    cores = done.cpu_seconds / done.wall_seconds
    lost, doubled = JOBS * STEPS * len(KEYS) - len(logged), sum(logged.values()) - len(logged)
    rows = [
        Row(name="jobs created", value=len(done.jobs), unit="jobs", target=f"{JOBS}", met=len(done.jobs) == JOBS),
        _row("calls while following", busiest(following), "calls/s", "under 10", 10),
        Row(name="calls while starting", value=busiest(started), unit="calls/s"),
        Row(name="jobs started", value=len(created) / (created[-1] - created[0]), unit="jobs/s"),
        _row("CPU of the launcher", cores, "cores", "under 0.5", 0.5),
        _row("memory of the launcher", done.memory_mib, "MiB", "under 500 MB", 500e6 / 2**20),
        _row("points lost", lost, f"of {JOBS * STEPS * len(KEYS)}", "0", 1),
        _row("points logged twice", doubled, "points", "0", 1),
        Row(name="wall clock", value=done.wall_seconds, unit="s"),
    ]
    counts = Counter(operation for _, operation in done.calls)
    write(
        "following",
        rows,
        [
            f"{JOBS} jobs of {STEPS} steps, about {PAUSE_SECONDS:g} s apart, followed by one `compare` through "
            "SageMaker's API, with MLflow on SQLite. Calls per second are those of all services in the busiest "
            f"{WINDOW_SECONDS:g} s. All calls: "
            + ", ".join(f"{count} {operation}" for operation, count in counts.most_common())
            + ".",
            f"Load of the machine at the end: {os.getloadavg()[0]:.1f}. The jobs ran on the same machine.",
        ],
    )


def _row(name: str, value: float, unit: str, target: str, limit: float) -> Row:
    return Row(name=name, value=value, unit=unit, target=target, met=value < limit)


if __name__ == "__main__":
    main()
