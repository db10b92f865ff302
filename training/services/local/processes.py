"""Start a job's processes, wait for them, and kill any that are left. Linux only; standard library only."""

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
"""Variable that every process of a job inherits. Its value is unique to the job and identifies its processes."""

KILL_ROUNDS = 500
KILL_PAUSE_SECONDS = 0.01

EndedBy = Literal["itself", "stop", "time limit"]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A command with its environment and limits."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    log: Path
    """File to which standard output and standard error are appended."""
    cores: Sequence[int]
    """Numbers of the cores to run on; empty for any core."""
    memory_bytes: int | None
    """Limit on the data segment of each process in bytes; None for no limit."""
    inherited: Sequence[int]
    """File descriptors that the processes inherit."""
    limit_seconds: float
    """Seconds after which the program is stopped."""
    grace_seconds: float
    """Seconds between SIGTERM and SIGKILL."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Exit code of a program and the reason why it ended."""

    exit_code: int
    """Exit code; a negative one is the number of the signal that killed the program."""
    ended_by: EndedBy
    out_of_memory: bool
    """True if the kernel's out-of-memory killer killed a process during the run."""


def run(program: Program, on_stop: Callable[[EndedBy], None], on_pause: Callable[[], None] = lambda: None) -> Outcome:
    """Run the program until it exits. `on_pause` is called every moment while it runs.

    The caller must have blocked SIGTERM and SIGCHLD. SIGTERM to this process stops the program. `on_stop` is called
    before the program receives SIGTERM. Raises OSError if the program cannot start.
    """
    kills_before = out_of_memory_kills()
    deadline = time.monotonic() + program.limit_seconds
    marker = LogMarker(program.log)
    process = _start(program)
    ended_by = _wait(process.pid, deadline, {signal.SIGCHLD, signal.SIGTERM}, marker, on_pause)
    if ended_by != "itself":
        on_stop(ended_by)
        os.killpg(process.pid, signal.SIGTERM)
        _wait(process.pid, time.monotonic() + program.grace_seconds, {signal.SIGCHLD}, marker, on_pause)
    # The group's leader has not been reaped yet, so its process ID cannot belong to a new group.
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


def _wait(
    pid: int, deadline: float, signals: set[signal.Signals], marker: LogMarker, on_pause: Callable[[], None]
) -> EndedBy:
    """Wait until the process ends, the deadline passes or SIGTERM arrives. Meanwhile, mark the log's growth.

    `deadline` is on the monotonic clock.
    """
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            return "time limit"
        caught = signal.sigtimedwait(signals, min(remaining_seconds, INTERVAL_SECONDS))
        marker.mark()
        on_pause()
        if caught is not None and caught.si_signo == signal.SIGTERM:
            return "stop"
    return "itself"


def kill_marked(base_dir: str) -> None:
    """Kill every process that carries the job's marker, including those that left its process group.

    Repeat until no such process is left, because a process may have forked meanwhile. The number of rounds is limited,
    because a process that waits for a device dies only after the device responds.
    """
    for _ in range(KILL_ROUNDS):
        pids = marked_processes(base_dir)
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(KILL_PAUSE_SECONDS)


def marked_processes(base_dir: str) -> list[int]:
    """Return the IDs of this user's processes whose environment carries the job's marker."""
    mark = f"{MARKER}={base_dir}".encode()
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if mark in _environment(folder)]


def _environment(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def out_of_memory_kills() -> int:
    """Count the processes that the out-of-memory killer killed in this memory cgroup, or else on the machine."""
    for file in _kill_counters():
        with contextlib.suppress(OSError):
            for line in file.read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    return 0


def _kill_counters() -> list[Path]:
    """Return the files that may contain the counter, starting with the closest cgroup."""
    files: list[Path] = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                files.append(Path(f"/sys/fs/cgroup/{path}/memory.events"))
            elif "memory" in controllers.split(","):
                files.append(Path(f"/sys/fs/cgroup/memory/{path}/memory.oom_control"))
    # In a container these paths may not exist. Then the container's cgroup is mounted at the root.
    mounted = [Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control")]
    return [*files, *mounted, Path("/proc/vmstat")]
