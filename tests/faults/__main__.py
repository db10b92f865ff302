"""Plant every fault in a copy of the tree, and run the test that must find it: `python -m tests.faults [TEXT]`.

With TEXT, only the faults whose file, meaning or test contains it. WORKERS copies are used at the same time, by default
two. The exit code is 1 unless every fault is found.
"""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conftest import ROOT, SHARED, TEMPLATE_VARIABLE
from tests.faults.fault import Fault
from tests.faults.planted import FAULTS
from tests.faults.planted_jobs import JOB_FAULTS

LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", ".*_cache", "__pycache__", "test-artifacts", "mlruns", "mlflow.db", ".trainfare", ".hypothesis"
)
PASSED, FAILED = 0, 1
"""Exit codes of pytest."""
TEST_SECONDS = 1_800


def copy_tree(folder: Path) -> Path:
    """Return a copy of the tree, beside a link to the shared data."""
    copy = folder / "tree"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
    if SHARED.exists():
        (folder / "shared").symlink_to(SHARED.resolve())
    return copy


def run_tests(copy: Path, tests: Sequence[str], template: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *tests]
    environment = {**os.environ, TEMPLATE_VARIABLE: str(template), "PYTHONPATH": ""}
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, timeout=TEST_SECONDS, check=False
    )


def outcome(fault: Fault, copy: Path, template: Path) -> str:
    """Plant a fault in a copy, run its test, and restore the copy."""
    path = copy / fault.file
    original = path.read_text("utf-8") if path.exists() else ""
    if original.count(fault.old) != 1:
        return f"anchor missing: it occurs {original.count(fault.old)} times"
    try:
        _write(path, original.replace(fault.old, fault.new))
        done = run_tests(copy, [fault.test], template, "-x")
    except subprocess.TimeoutExpired:
        return "found (the test does not end)"
    finally:
        _write(path, original)
    if done.returncode == FAILED:
        return "found"
    last = (done.stdout.strip() or done.stderr.strip() or "no output").splitlines()[-1]
    return "NOT FOUND" if done.returncode == PASSED else f"NOT RUN: {last}"


def _write(path: Path, text: str) -> None:
    """Write a module, and forget what was compiled of it: within a second, Python would take it for the new one."""
    path.write_text(text, "utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def main(words: Sequence[str]) -> int:
    """Report the outcome of each fault, and return the exit code."""
    faults = [
        each
        for each in (*FAULTS, *JOB_FAULTS)
        if all(word in f"{each.file} {each.meaning} {each.test}" for word in words)
    ]
    workers, started = max(1, int(os.environ.get("WORKERS", "2"))), time.monotonic()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as name:
        copies: queue.Queue[Path] = queue.Queue()
        for number in range(workers):
            (Path(name) / str(number)).mkdir()
            copies.put(copy_tree(Path(name) / str(number)))
        template = _template_database(Path(name))
        # Without a fault, every test passes.
        tests = list(dict.fromkeys(each.test for each in faults))
        clean = run_tests(copies.queue[0], tests, template, "-n", str(workers), "--dist", "worksteal")
        if clean.returncode != PASSED:
            print(clean.stdout[-4000:], clean.stderr[-2000:])
            print("Some tests fail without a fault: mend them first.")
            return 1

        def tried(fault: Fault) -> str:
            copy = copies.get()
            try:
                return outcome(fault, copy, template)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(workers) as pool:
            for fault, result in zip(faults, pool.map(tried, faults), strict=True):
                missed += not result.startswith("found")
                print(f"{result:12} {fault.file}: {fault.meaning}", flush=True)
                if not result.startswith("found"):
                    print(f"{'':12} by {fault.test}", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults found in {time.monotonic() - started:.0f} s")
    return 1 if missed else 0


def _template_database(folder: Path) -> Path:
    """Return an empty MLflow database, which each test would create anew in many seconds."""
    from mlflow import MlflowClient

    path = folder / "template.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
