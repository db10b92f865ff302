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
from pathlib import Path

from benchmarks.support.results import figure, write
from tests.support.aws.serve import Served, served
from tests.support.aws.talking import KEYS, points, study
from tracking.recording.run_artifacts import ROOT

JOBS = int(os.environ.get("BENCH_JOBS", 200))
STEPS = 120
PAUSE_SECONDS = 1.0


def follow(folder: Path, account: Served) -> tuple[float, float, float]:
    """Run `compare` with all jobs in parallel. Return its seconds, its CPU seconds and its peak memory in MiB."""
    environment = {
        **os.environ,
        **account.variables,
        "TRAINFARE_HOME": str(folder / "home"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    path = study(folder, jobs=JOBS, parallel=JOBS, steps=STEPS, pause=PAUSE_SECONDS)
    command = [sys.executable, "-m", "experiments", "compare", "--experiment", str(path)]
    with (folder / "launcher.txt").open("wb") as log:
        started = time.monotonic()
        launcher = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(launcher.pid, 0)
        launcher.returncode = os.waitstatus_to_exitcode(status)
    if launcher.returncode:
        sys.exit(f"error: the comparison failed:\n{(folder / 'launcher.txt').read_text()[-4000:]}")
    return time.monotonic() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def busiest(times: Sequence[float]) -> float:
    """Return the calls per second in the busiest 10 s."""
    return max((sum(at - 10 <= each <= at for each in times) for at in times), default=0) / 10


def main() -> None:
    with tempfile.TemporaryDirectory() as name, served(Path(name) / "account") as account:
        wall_seconds, cpu_seconds, memory_mib = follow(Path(name), account)
        calls, jobs, logged = account.ask("calls"), account.ask("jobs"), points(Path(name) / "mlflow.db")
    created = [at for at, operation in calls if operation == "CreateTrainingJob"]
    values = JOBS * STEPS * len(KEYS)
    rows = [
        figure("jobs created", len(jobs), "jobs", least=JOBS, most=JOBS),
        figure("calls while following", busiest([at for at, _ in calls if at > created[-1]]), "calls/s", most=10),
        figure("calls while starting", busiest([at for at, _ in calls if at <= created[-1]]), "calls/s"),
        figure("jobs started", len(created) / (created[-1] - created[0]), "jobs/s"),
        figure("CPU of the launcher", cpu_seconds / wall_seconds, "cores", most=0.5),
        figure("memory of the launcher", memory_mib, "MiB", most=500e6 / 2**20),
        figure("points lost", values - len(logged), f"of {values}", most=0),
        figure("points logged twice", sum(logged.values()) - len(logged), "points", most=0),
        figure("wall clock", wall_seconds, "s"),
    ]
    counts = ", ".join(f"{count} {name}" for name, count in Counter(name for _, name in calls).most_common())
    write("following", rows, [f"{JOBS} jobs of {STEPS} steps. All calls: {counts}."])


if __name__ == "__main__":
    main()
