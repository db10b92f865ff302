"""Start a job's processes, wait for them, and leave none behind. Linux only; standard library only."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from training.services.local.log_times import INTERVAL_SECONDS, LogMarker

MARKER = "SAGEMAKER_BASE_DIR"
"""Every process of a job inherits this variable, and no other job has its value: that is how they are found."""

KILL_ROUNDS = 500
KILL_PAUSE_SECONDS = 0.01

EndedBy = Literal["itself", "stop", "time limit"]


@dataclass(frozen=True, kw_only=True)
class Program:
    """What to run and within which bounds."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    log: Path
    """Takes standard output and error, appended."""
    cores: Sequence[int]
    """Cores to run on; empty for any."""
    memory_bytes: int | None
    """Limit on each process's data, bytes."""
    inherited: Sequence[int]
    """File descriptors that the processes keep open."""
    limit_seconds: float
    """Run time after which it is stopped."""
    grace_seconds: float
    """Time between SIGTERM and SIGKILL."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How it ended."""

    exit_code: int
    """Negative: the number of the signal that killed it."""
    ended_by: EndedBy
    out_of_memory: bool
    """Whether the kernel's out-of-memory killer struck meanwhile."""


def run(program: Program, on_stop: Callable[[EndedBy], None]) -> Outcome:
    """Run the program to its end. The caller has blocked SIGTERM, which means stop, and SIGCHLD.

    `on_stop` is called before a program that is to be stopped gets its SIGTERM. Raises OSError when it cannot start.
    """
    kills_before = out_of_memory_kills()
    deadline = time.monotonic() + program.limit_seconds
    process = _start(program)
    marker = LogMarker(program.log)
    ended_by = _wait(process.pid, deadline, {signal.SIGCHLD, signal.SIGTERM}, marker)
    if ended_by != "itself":
        on_stop(ended_by)
        os.killpg(process.pid, signal.SIGTERM)
        _wait(process.pid, time.monotonic() + program.grace_seconds, {signal.SIGCHLD}, marker)
    # The leader is not reaped yet, so its number, which names the group, cannot have gone to another process.
    os.killpg(process.pid, signal.SIGKILL)
    exit_code = process.wait()
    kill_marked(program.environment[MARKER])
    marker.mark()
    return Outcome(exit_code=exit_code, ended_by=ended_by, out_of_memory=out_of_memory_kills() > kills_before)


def _start(program: Program) -> subprocess.Popen[bytes]:
    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        if program.cores:
            os.sched_setaffinity(0, program.cores)
        if program.memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (program.memory_bytes, program.memory_bytes))

    with program.log.open("ab") as log:
        return subprocess.Popen(
            program.command,
            cwd=program.folder,
            env=dict(program.environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=program.inherited,
            process_group=0,
            preexec_fn=prepare,  # Safe: this process has one thread.
        )


def _wait(pid: int, deadline: float, signals: set[signal.Signals], marker: LogMarker) -> EndedBy:
    """Sleep until the process ends, the deadline (monotonic clock) passes or SIGTERM comes; mark the log's growth."""
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            return "time limit"
        caught = signal.sigtimedwait(signals, min(remaining_seconds, INTERVAL_SECONDS))
        marker.mark()
        if caught is not None and caught.si_signo == signal.SIGTERM:
            return "stop"
    return "itself"


def kill_marked(base_dir: str) -> None:
    """Kill every process that carries the job's mark, also those that left its group.

    Looks again until none is found, since one may have forked meanwhile; not for ever, since one that waits for a
    device dies only when that answers.
    """
    for _ in range(KILL_ROUNDS):
        pids = marked(base_dir)
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(KILL_PAUSE_SECONDS)


def marked(base_dir: str) -> list[int]:
    """Return the processes of this user whose environment carries the job's mark."""
    mark = f"{MARKER}={base_dir}".encode()
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if mark in _environment(folder)]


def _environment(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def out_of_memory_kills() -> int:
    """Return how often the kernel's out-of-memory killer struck in this process's memory cgroup, or on the machine."""
    for file in _kill_counters():
        with contextlib.suppress(OSError):
            for line in file.read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    return 0


def _kill_counters() -> list[Path]:
    """The files that may hold the counter, the nearest to this process first."""
    files: list[Path] = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                files.append(Path(f"/sys/fs/cgroup/{path}/memory.events"))
            elif "memory" in controllers.split(","):
                files.append(Path(f"/sys/fs/cgroup/memory/{path}/memory.oom_control"))
    # Within a container the paths above may not exist as they are named; its own cgroup is then mounted at the top.
    mounted = [Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control")]
    return [*files, *mounted, Path("/proc/vmstat")]
