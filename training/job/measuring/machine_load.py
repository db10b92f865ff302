"""Measure what slows a job down while it runs: other processes, the hypervisor, limits, and a hot GPU.

A job that shares its machine is slower, and its cost says more about the others than about its setting. A thread reads
Linux's counters and `nvidia-smi` every few seconds. Values without a counter are absent. Processes of the same group of
jobs are not others: they belong to the setting.

`python -m training.job.measuring.machine_load` measures for a program that does not do it itself, such as a user's
script.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

INTERVAL_SECONDS = 20.0
JOB_NAME = "TRAINING_JOB_NAME"
"""Variable of a SageMaker container with the job's name."""
_GROUP = re.compile(r".+-\d{6}-\d{6}-[0-9a-f]{4}(?=-)")
"""Name of a group at the beginning of its jobs' names."""
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

GPUS = (
    "nvidia-smi",
    "--query-gpu=utilization.gpu,clocks.sm,clocks.max.sm,clocks_throttle_reasons.active",
    "--format=csv,noheader,nounits",
)
PROCESSES = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader,nounits")
SLOWDOWN_BITS = 0x8 | 0x20 | 0x40 | 0x80
"""Hardware slowdown, thermal slowdown by software or hardware, and power brake, in NVML's bits of throttle reasons. The
software power cap (0x4) is not among them: a GPU at full load usually runs at it."""
NVIDIA_SMI_SECONDS = 10.0


@dataclass(frozen=True)
class Reading:
    """Counters of the machine at one instant, in seconds since some time in the past."""

    at: float
    busy: float
    """CPU seconds of all processes."""
    steal: float
    """CPU seconds that the hypervisor gave to other machines."""
    sessions: dict[int, float]
    """CPU seconds of the sessions of this group's jobs, by session id. Ended children are included."""
    throttled: float | None = None
    """Seconds in which a CPU limit stopped the job."""
    memory_stalled: float | None = None
    """Seconds in which a process waited for memory."""


@dataclass
class Total:
    """Sums over the readings of a job."""

    first: Reading
    last: Reading
    ours: dict[int, float] = field(default_factory=dict)
    """CPU seconds of each session of the group since the first reading. Sessions that ended keep their last value."""

    def add(self, reading: Reading) -> None:
        for session, seconds in reading.sessions.items():
            # A session that began later than the first reading counts from its beginning.
            self.ours[session] = max(self.ours.get(session, 0.0), seconds - self.first.sessions.get(session, 0.0))
        self.last = reading

    def metrics(self, cpus: int) -> dict[str, float]:
        """Return `machine/*`: percent of the time of `cpus` or of the elapsed time, and the mean number of CPUs.

        Empty without elapsed time.
        """
        first, last = self.first, self.last
        elapsed = last.at - first.at
        if elapsed <= 0:
            return {}
        capacity = elapsed * cpus
        others = max(0.0, last.busy - first.busy - sum(self.ours.values()))
        metrics = {
            "machine/others_cpu_percent": 100 * others / capacity,
            "machine/others_cpus": others / elapsed,
            "machine/steal_percent": 100 * (last.steal - first.steal) / capacity,
        }
        for name, begin, end in (
            ("machine/throttled_percent", first.throttled, last.throttled),
            ("machine/memory_stalled_percent", first.memory_stalled, last.memory_stalled),
        ):
            if begin is not None and end is not None:
                metrics[name] = min(100.0, 100 * (end - begin) / elapsed)
        return metrics


class Members:
    """Sessions that belong to the jobs of a group."""

    def __init__(self, group: str, *sessions: int) -> None:
        self.group = group
        self.sessions = set(sessions)
        self._checked: set[str] = set()

    def check(self, session: int, process: Path) -> None:
        """Add the session if one of its processes has the name of a job of the group."""
        if not self.group or session in self.sessions or process.name in self._checked:
            return
        self._checked.add(process.name)
        if group_of(_job_name(process / "environ")) == self.group:
            self.sessions.add(session)


class MachineLoad:
    """Thread that reads the counters until `metrics` is called."""

    def __init__(self, reads_gpu: bool, cpus: int = 0) -> None:
        """Measure while a job runs on `cpus` CPUs; 0 stands for the CPUs of this process."""
        self._cpus = cpus or job_cpus()
        self._members = Members(group_of(os.environ.get(JOB_NAME, "")), os.getsid(0))
        self._gpu = GpuLoad() if reads_gpu else None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machine-load", daemon=True)

    def start(self) -> "MachineLoad":
        """Take the first reading, and start the thread."""
        first = read(self._members)
        self._total = Total(first, first)
        self._thread.start()
        return self

    def metrics(self) -> dict[str, float]:
        """Take the last reading, and return the metrics since the first."""
        self._ended.set()
        self._thread.join()
        self._read()
        return {**self._total.metrics(self._cpus), **(self._gpu.metrics() if self._gpu else {})}

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL_SECONDS):
            self._read()

    def _read(self) -> None:
        self._total.add(read(self._members))
        if self._gpu:
            self._gpu.read(self._members.sessions)


def group_of(job_name: str) -> str:
    """Return the group's name in a job's name, or the whole name of a job without a group."""
    match = _GROUP.match(job_name)
    return match.group() if match else job_name


def job_cpus() -> int:
    """Return the number of CPUs that the job may use."""
    return len(os.sched_getaffinity(0))


def read(members: Members, root: Path = Path("/")) -> Reading:
    """Return the counters now. New sessions of the group are added to `members`."""
    counters = (root / "proc" / "stat").read_text().split()[1:9]
    user, nice, system, _, _, irq, softirq, steal = (int(part) for part in counters)
    return Reading(
        at=time.monotonic(),
        busy=(user + nice + system + irq + softirq) / TICKS_PER_SECOND,
        steal=steal / TICKS_PER_SECOND,
        sessions=_sessions(members, root / "proc"),
        throttled=_throttled_seconds(root / "sys" / "fs" / "cgroup"),
        memory_stalled=_stalled_seconds(root / "proc" / "pressure" / "memory"),
    )


def _sessions(members: Members, proc: Path) -> dict[int, float]:
    """Return the CPU seconds of the group's sessions."""
    seconds: dict[int, float] = {}
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        try:
            # The name of a process is in parentheses and may contain spaces.
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            session = int(fields[3])
            # Times of the process and of its ended children.
            ticks = sum(int(part) for part in fields[11:15])
        except (OSError, ValueError, IndexError):
            continue  # the process has ended
        members.check(session, process)
        seconds[session] = seconds.get(session, 0.0) + ticks / TICKS_PER_SECOND
    return {session: value for session, value in seconds.items() if session in members.sessions}


def _job_name(environ: Path) -> str:
    try:
        variables = environ.read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    prefix = JOB_NAME + "="
    return next((each[len(prefix) :] for each in variables if each.startswith(prefix)), "")


def _throttled_seconds(cgroup: Path) -> float | None:
    """Return the seconds in which a CPU limit stopped the job, from version 2 or 1 of control groups."""
    for path, name, per_second in (
        (cgroup / "cpu.stat", "throttled_usec", 1e6),
        (cgroup / "cpu" / "cpu.stat", "throttled_time", 1e9),
    ):
        value = value_of(path, name)
        if value is not None:
            return value / per_second
    return None


def value_of(path: Path, name: str) -> int | None:
    """Return the number in the line that begins with the name, or None."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), None)


def _stalled_seconds(path: Path) -> float | None:
    """Return the seconds in which some process waited for memory, from the kernel's pressure information."""
    try:
        text = path.read_text()
    except OSError:
        return None
    match = re.search(r"^some .*total=(\d+)", text, re.MULTILINE)
    return int(match.group(1)) / 1e6 if match else None


class GpuLoad:
    """Readings of the GPUs in use."""

    def __init__(self) -> None:
        self._clock_percents: list[float] = []
        self._slowed: list[bool] = []
        self._shared: list[bool] = []

    def read(self, sessions: Collection[int]) -> None:
        """Add a reading for the jobs in these sessions; none if nvidia-smi does not answer."""
        gpus = _output(GPUS)
        if gpus is not None:
            self.add_gpus(gpus)
            self.add_processes(_output(PROCESSES) or "", sessions)

    def add_gpus(self, output: str) -> None:
        """Add the output of `GPUS`: a line per GPU. GPUs that are not in use and values that are not known count not.

        The slowest GPU decides, because the others wait for it.
        """
        clocks, slowed = [], []
        for line in output.splitlines():
            try:
                utilization, clock, most, reasons = (part.strip() for part in line.split(","))
                if int(utilization) > 0:
                    clocks.append(100 * float(clock) / float(most))
                    slowed.append(bool(int(reasons, 16) & SLOWDOWN_BITS))
            except (ValueError, ZeroDivisionError):
                continue
        if clocks:
            self._clock_percents.append(min(clocks))
            self._slowed.append(any(slowed))

    def add_processes(self, output: str, sessions: Collection[int]) -> None:
        """Add the output of `PROCESSES`: a line for each process on a GPU.

        A GPU is shared if a process of `sessions` and one of another session use it. Process IDs that do not exist here
        do not count: a container sees the IDs of its host.
        """
        users: dict[str, set[bool]] = {}
        for line in output.splitlines():
            gpu, _, process = line.partition(",")
            with suppress(OSError, ValueError):
                users.setdefault(gpu.strip(), set()).add(os.getsid(int(process)) in sessions)
        ours = [kinds for kinds in users.values() if True in kinds]
        if ours:
            self._shared.append(any(False in kinds for kinds in ours))

    def metrics(self) -> dict[str, float]:
        """Return the median clock in percent of the highest, and the percentages of slowed and of shared readings."""
        metrics = {}
        if self._slowed:
            metrics["machine/gpu_clock_percent"] = statistics.median(self._clock_percents)
            metrics["machine/gpu_slowdown_percent"] = _percent(self._slowed)
        if self._shared:
            metrics["machine/gpu_shared_percent"] = _percent(self._shared)
        return metrics


def _percent(readings: list[bool]) -> float:
    return 100 * sum(readings) / len(readings)


def _output(command: tuple[str, ...]) -> str | None:
    """Return the standard output of a command, or None if it fails."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=NVIDIA_SMI_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def main() -> None:
    """Measure until standard input ends, then print the metrics as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpus", type=int, default=0)
    parser.add_argument("--gpu", action="store_true")
    arguments = parser.parse_args()
    load = MachineLoad(reads_gpu=arguments.gpu, cpus=arguments.cpus).start()
    sys.stdin.read()
    print(json.dumps(load.metrics()))


if __name__ == "__main__":
    main()
