"""Kills at random moments of the first use of a database, and several first uses at once."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path

from benchmarks.attacks.counts import Counts, Result
from benchmarks.support.forked import start, wait
from benchmarks.support.installed import installed_environment
from sweeps.study.storage import open_storage
from tracking.server.store import open_store

KILLS = {"tracking": 60, "sweeps": 40, "mlflow run": 20}
TOGETHER = 10
LIMIT_SECONDS = 200.0


def use_tracking(folder: Path, name: str) -> None:
    """Open the tracking store of a folder, create an experiment, and list the experiments."""
    store = open_store(f"sqlite:///{folder / 'tracking.db'}")
    store.client.create_experiment(name)
    print("names:", *(each.name for each in store.client.search_experiments()))


def use_sweeps(folder: Path, name: str) -> None:
    """Open the sweeps' database of a folder, create a study, and list the studies."""
    from optuna.study import StudyDirection

    storage = open_storage(f"sqlite:///{folder / 'sweeps.db'}")
    storage.retries.call(storage.rdb.create_new_study, [StudyDirection.MINIMIZE], name)
    print("names:", *(each.study_name for each in storage.retries.call(storage.rdb.get_all_studies)))


def use_project(folder: Path, name: str) -> int:
    """Run a project that does nothing by `mlflow run` in a folder, in an experiment, and list the experiments."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    (project / "MLproject").write_text('name: nothing\nentry_points: {main: {command: "true"}}\n')
    command = [sys.executable, "-m", "mlflow", "run", str(project), "--env-manager", "local", "--experiment-name", name]
    code = subprocess.run(command, cwd=folder, env=installed_environment(folder / "installed")).returncode
    if code == 0:
        print_names(folder / "mlflow.db")
    return code


def print_names(path: Path) -> None:
    """List the experiments of a tracking database, without MLflow."""
    with closing(sqlite3.connect(path, timeout=60.0)) as database:
        print("names:", *(name for (name,) in database.execute("SELECT name FROM experiments")))


USES: dict[str, Callable[[Path, str], object]] = {
    "tracking": use_tracking,
    "sweeps": use_sweeps,
    "mlflow run": use_project,
}
EARLIEST = {"mlflow run": 0.3}
"""Earliest moment of a kill, as a share of an undisturbed use: before it, only packages are imported."""


def kills(folder: Path, kind: str, count: int, seed: int = 1) -> Counts:
    """Kill first uses at random moments. The next use must work, and find a whole database."""
    counts, draw = Counts(f"kill at first use of the {kind} database"), random.Random(seed)
    seconds = undisturbed_seconds(folder / f"{kind}-whole", kind)
    for number in range(count):
        own = made(folder / f"{kind}-{number}")
        moment = draw.uniform(EARLIEST.get(kind, 0.0) * seconds, seconds)
        killed = start(lambda own=own: USES[kind](own, "first"), own / "killed.txt")  # type: ignore[misc]
        time.sleep(moment)
        with suppress(ProcessLookupError):  # before setsid, it has no group of its own
            os.killpg(killed, signal.SIGKILL)  # with the processes that it started
        os.kill(killed, signal.SIGKILL)
        os.waitpid(killed, 0)
        check(counts, f"{moment:.2f} s", own, kind, ["second"])
    return counts


def together(folder: Path, kind: str, count: int) -> Counts:
    """Start two first uses at once, several times."""
    counts = Counts(f"two first uses of the {kind} database at once")
    for number in range(count):
        check(counts, str(number), made(folder / f"{kind}-both-{number}"), kind, ["one", "two"])
    return counts


def undisturbed_seconds(folder: Path, kind: str) -> float:
    """Return the seconds of an undisturbed first use."""
    started = time.monotonic()
    assert wait(start(lambda: USES[kind](made(folder), "first"), folder.with_suffix(".txt")), LIMIT_SECONDS) == 0
    return time.monotonic() - started


def check(counts: Counts, name: str, folder: Path, kind: str, names: Iterable[str]) -> None:
    """Use the database with each name at once, and count one attempt."""
    output = folder / "output.txt"
    started = [start(lambda each=each: USES[kind](folder, each), output) for each in names]  # type: ignore[misc]
    codes = [wait(pid, LIMIT_SECONDS) for pid in started]
    text = output.read_text()
    stored = max((line.split()[1:] for line in text.splitlines() if line.startswith("names:")), key=len, default=[])
    fault = "" if all(code == 0 for code in codes) else f"exit codes {codes}: {text[-500:]}"
    counts.add(
        name,
        lost=not fault and not {*names} <= {*stored},
        doubled=len(set(stored)) < len(stored),
        output=text,
        fault=fault or damage(folder),
    )


def damage(folder: Path) -> str:
    """Return the damage of a folder and its database, or an empty text."""
    [path] = folder.glob("*.db")
    if path.stat().st_mode & 0o077:
        return f"{path.name} is not private"
    with closing(sqlite3.connect(path, timeout=60.0)) as database:
        answer = str(database.execute("PRAGMA integrity_check").fetchone()[0])
    left = [each.name for each in folder.iterdir() if ".new-" in each.name or "incomplete" in each.name]
    return f"left behind: {', '.join(left)}" if left else "" if answer == "ok" else answer


def made(folder: Path) -> Path:
    """Create a folder and return it."""
    folder.mkdir()
    return folder


def run(folder: Path) -> Result:
    """Kill 120 first uses, and start 30 pairs at once."""
    counts = [kills(folder, kind, count) for kind, count in KILLS.items()]
    counts += [together(folder, kind, TOGETHER) for kind in KILLS]
    note = (
        "First use: a process that creates the database of runs or of sweeps, or `mlflow run`, is killed at a random "
        "moment of that. The next process must work, and must leave a whole private database and no other file."
    )
    return Result(counts=counts, note=note)
