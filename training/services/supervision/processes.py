"""Start a job's processes, wait for them, and kill any that are left. Linux only; standard library only.

The supervisor is the subreaper of its job: if the parent of one of the job's processes ends, the supervisor becomes its
parent. So the job's processes are the supervisor's descendants, whatever session or environment they have. The kernel
kills the script with its supervisor. What a killed supervisor leaves is found by the variable `MARKER`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from training.services.supervision.job_folder import INTERVAL_SECONDS, LogMarker

MARKER = "SAGEMAKER_BASE_DIR"
"""Variable that a job's processes inherit, unless they drop it. Its value is unique to the job."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""Options of Linux's `prctl`."""

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
    limit_seconds: float
    grace_seconds: float
    """Seconds between SIGTERM and SIGKILL."""
    is_ours: Callable[[], bool] = lambda: True
    """Returns whether the program may go on; else it is killed, and this process ends."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Exit code of a program and the reason why it ended."""

    exit_code: int
    """Exit code; a negative one is the number of the signal that killed the program."""
    ended_by: EndedBy
    out_of_memory: bool
    """True if the kernel's out-of-memory killer killed a process during the run."""


def run(program: Program, on_stop: Callable[[EndedBy], None]) -> Outcome:
    """Run the program until it exits.

    The caller must have blocked SIGTERM and SIGCHLD. SIGTERM to this process stops the program. `on_stop` is called
    before the program receives SIGTERM. Raises OSError if the program cannot start, and SystemExit if it is no longer
    ours.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    not_of_job = _children()
    kills_before = out_of_memory_kills()
    deadline = time.monotonic() + program.limit_seconds
    marker = LogMarker(program.log, program.is_ours)
    process = _start(program)
    try:
        ended_by = _wait(process.pid, deadline, {signal.SIGCHLD, signal.SIGTERM}, marker)
        if ended_by != "itself":
            on_stop(ended_by)
            os.killpg(process.pid, signal.SIGTERM)
            _wait(process.pid, time.monotonic() + program.grace_seconds, {signal.SIGCHLD}, marker)
    finally:
        # The group's leader has not been reaped yet, so its process ID cannot belong to a new group.
        os.killpg(process.pid, signal.SIGKILL)
        exit_code = process.wait()
        _kill_until_none(lambda: _children() - not_of_job)
    marker.mark()
    return Outcome(exit_code=exit_code, ended_by=ended_by, out_of_memory=out_of_memory_kills() > kills_before)


def _start(program: Program) -> subprocess.Popen[bytes]:
    library = ctypes.CDLL(None)

    def prepare() -> None:
        library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
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
            process_group=0,
            preexec_fn=prepare,  # Safe: this process has one thread.
        )


def _wait(pid: int, deadline: float, signals: set[signal.Signals], marker: LogMarker) -> EndedBy:
    """Wait until the process ends, the deadline passes or SIGTERM arrives. Meanwhile, mark the log's growth.

    `deadline` is on the monotonic clock.
    """
    while not _has_ended(pid):
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            return "time limit"
        caught = signal.sigtimedwait(signals, min(remaining_seconds, INTERVAL_SECONDS))
        marker.mark()
        if caught is not None and caught.si_signo == signal.SIGTERM:
            return "stop"
    return "itself"


def _has_ended(pid: int) -> bool:
    """Return whether a child has ended, and leave it unreaped. Reap others that have, such as orphans of the job."""
    while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if ended.si_pid == pid:
            return True
        os.waitid(os.P_PID, ended.si_pid, os.WEXITED)
    return False


def _children() -> set[int]:
    """Return the process IDs of this process's children, after reaping those that have ended."""
    with contextlib.suppress(ChildProcessError):  # raised if this process has no children
        _has_ended(0)
    return {pid for pid, status in _processes("stat") if int(status.rpartition(b")")[2].split()[1]) == os.getpid()}


def kill_marked(base_dir: str) -> None:
    _kill_until_none(lambda: marked_processes(base_dir))


def marked_processes(base_dir: str) -> list[int]:
    """Return the IDs of this user's processes whose environment carries the job's marker."""
    mark = f"{MARKER}={base_dir}".encode()
    return [pid for pid, environment in _processes("environ") if mark in environment.split(b"\0")]


def _processes(file: str) -> Iterator[tuple[int, bytes]]:
    """Yield the ID of each process whose file in `/proc` this user can read, with the file's content."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield int(folder.name), (folder / file).read_bytes()


def _kill_until_none(find: Callable[[], Collection[int]]) -> None:
    """Kill the processes that `find` returns.

    Repeat until no such process is left, because a process may have forked meanwhile. The number of rounds is limited,
    because a process that waits for a device dies only after the device responds.
    """
    for _ in range(KILL_ROUNDS):
        pids = find()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(KILL_PAUSE_SECONDS)


def out_of_memory_kills() -> int:
    """Count the processes that the kernel's out-of-memory killer has killed on this machine."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
