"""The threads of a job block while they wait, as long as other processes need their CPUs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from measuring.own_cpus import CpuReading, others_cpus, read, usable_cpus
from reporting.errors import Unsupported
from tests.conftest import ROOT
from tests.support.job.noted import Noted
from threads.neighbours import SharedCpus
from threads.thread_control import ThreadControl, is_fixed, set_threads


def crowded_after(cpus: int, threads: int, *others: float) -> list[bool]:
    shared = SharedCpus(cpus)
    return [shared.update(each, threads) for each in others]


def test_a_busy_process_crowds_two_cpus() -> None:
    """Beside two waiting threads, it gets 2/3 of a CPU, and then a whole one. Two calm readings end it."""
    assert crowded_after(2, 2, 0.0, 0.67, 1.0, 1.0, 0.1, 0.0, 0.0) == [False, True, True, True, True, False, False]


def test_a_little_load_changes_nothing_in_either_direction() -> None:
    assert crowded_after(2, 2, 0.5, 0.59, 0.3) == [False, False, False]
    assert crowded_after(2, 2, 0.61, 0.5, 0.3, 0.26, 0.26) == [True] * 5
    # One calm reading is not enough.
    assert crowded_after(2, 2, 0.61, 0.2, 0.3, 0.2, 0.3, 0.2, 0.2) == [True] * 6 + [False]


def test_cpus_that_no_thread_needs_are_free_for_others() -> None:
    assert crowded_after(8, 8, 8 / 9, 1.0) == [True, True]
    assert crowded_after(8, 4, 4.5, 4.7) == [False, True]
    # A single thread waits for no other.
    assert crowded_after(2, 1, 2.0) == [False]


def test_others_use_what_is_busy_and_not_ours() -> None:
    """In 4 s, our two CPUs were busy for 7 s, of which our process used 4.5 s: 2.5 s / 4 s."""
    assert others_cpus(CpuReading(10.0, 100.0, 20.0), CpuReading(14.0, 107.0, 24.5)) == pytest.approx(0.625)
    # Counters of different resolution cannot give less than nothing.
    assert others_cpus(CpuReading(10.0, 100.0, 20.0), CpuReading(11.0, 101.0, 21.01)) == 0.0
    assert others_cpus(CpuReading(10.0, 100.0, 20.0), CpuReading(10.0, 101.0, 20.0)) == 0.0


def test_only_the_cpus_of_this_process_are_read(tmp_path: Path) -> None:
    """Fields: user, nice, system, idle, iowait, irq, softirq, steal. Idle, waiting and stolen time is not busy."""
    own = min(os.sched_getaffinity(0))
    lines = ["cpu  9 9 9 9 9 9 9 9 0 0", f"cpu{own} 100 20 30 4000 500 6 7 8 0 0", "cpu4097 900 0 0 0 0 0 0 0 0 0"]
    (tmp_path / "stat").write_text("\n".join([*lines, "intr 1 2 3"]))
    reading = read(tmp_path)
    assert reading is not None
    assert reading.busy == pytest.approx((100 + 20 + 30 + 6 + 7) / os.sysconf("SC_CLK_TCK"))
    assert read(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, 64),
        ({"sys/fs/cgroup/cpu.max": "max 100000"}, 64),
        ({"sys/fs/cgroup/cpu.max": "400000 100000"}, 4),
        ({"sys/fs/cgroup/cpu.max": "150000 100000"}, 2),
        ({"sys/fs/cgroup/cpu.max": "20000 100000"}, 1),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 64),
        # The limit of a parent holds too.
        (
            {
                "proc/self/cgroup": "0::/jobs/mine\n",
                "sys/fs/cgroup/jobs/cpu.max": "200000 100000",
                "sys/fs/cgroup/jobs/mine/cpu.max": "max 100000",
            },
            2,
        ),
    ],
)
def test_a_quota_limits_the_cpus(tmp_path: Path, files: dict[str, str], cpus: int) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert usable_cpus(tmp_path, 64) == cpus


@pytest.mark.parametrize(
    ("environment", "fixed"),
    [
        ({}, False),
        # The service sets as many threads as the job has CPUs.
        ({"OMP_NUM_THREADS": "8", "SM_NUM_CPUS": "8"}, False),
        ({"OMP_NUM_THREADS": "4", "SM_NUM_CPUS": "8"}, True),
        ({"OMP_NUM_THREADS": "8"}, True),
        ({"TRAINFARE_CORES": "2", "OMP_NUM_THREADS": "2", "SM_NUM_CPUS": "2"}, True),
    ],
)
def test_a_number_that_somebody_chose_is_fixed(environment: dict[str, str], fixed: bool) -> None:
    assert is_fixed(environment) is fixed


@pytest.fixture
def two_threads(every_core: None) -> Iterator[None]:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this machine has one CPU")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_threads_block_while_the_cpus_are_crowded(two_threads: None) -> None:
    """Readings one second apart: the others use all CPUs, then none. The number of threads stays."""
    cpus = len(os.sched_getaffinity(0))
    readings = [CpuReading(at, cpus * min(at, 2.0), 0.0) for at in range(1, 6)]
    events, following = Noted(), iter(readings)
    control = ThreadControl(events, CpuReading(0.0, 0.0, 0.0), read=lambda: next(following))
    for _ in readings:
        control.on_step_end(None, None, None)
    assert control.metrics() == {"machine/steps_with_blocked_threads_percent": 60.0}
    assert events.messages == [
        f"other processes use {cpus:.1f} of {cpus} CPUs: until they stop, this job's waiting threads "
        "block instead of spinning"
    ]
    assert torch.get_num_threads() == 2


def test_without_counters_nothing_changes(two_threads: None) -> None:
    control = ThreadControl(Noted(), None)
    control.on_step_end(None, None, None)
    assert control.metrics() == {}


CPU_SECONDS = """
import time, torch
from threads.thread_waits import ThreadWaits

waits, values = ThreadWaits(), torch.rand(2**17)
torch.set_num_threads(2)
for blocking in (False, True, False):
    waits.block(blocking)
    assert waits.are_blocking is blocking
    values.sum()
    started = time.process_time()
    for _ in range(100):
        total = values.sum()
        time.sleep(0.001)
    print(time.process_time() - started, total.item())
"""
"""Prints the CPU seconds of operations with two threads, each followed by 1 ms without work, and their result."""


@pytest.mark.skipif(sys.platform != "linux", reason="GCC's OpenMP is on Linux")
def test_blocked_threads_use_no_cpu_and_change_no_result(two_threads: None) -> None:
    """A spinning thread uses its CPU between two operations: about twenty times the work itself.

    On one CPU, as in the other tests, threads never spin.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    output = subprocess.check_output(
        [sys.executable, "-c", CPU_SECONDS], cwd=ROOT / "training" / "job", env=clean, text=True
    )
    first, blocked, last = (line.split() for line in output.splitlines())
    assert float(blocked[0]) < 0.5 * float(first[0])
    assert float(blocked[0]) < 0.5 * float(last[0])
    assert first[1] == blocked[1] == last[1]


def test_a_real_neighbour_is_measured(two_threads: None) -> None:
    """A process that is always busy uses some of our CPUs, however many others do."""
    began = time.monotonic()
    first = read()
    assert first is not None
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        time.sleep(1.0)
        last = read()
        elapsed_seconds = time.monotonic() - began
        process.kill()
    assert last is not None
    assert others_cpus(first, last) > 0.05
    # The time of a reading can be later than that of its counters, each of which is cut off to 10 ms.
    assert last.busy - first.busy <= len(os.sched_getaffinity(0)) * elapsed_seconds + 0.1


def test_threads_at_the_start_follow_the_variable(two_threads: None) -> None:
    # OpenMP allows a number for each level of nested threads.
    set_threads({"OMP_NUM_THREADS": "1,2"})
    assert torch.get_num_threads() == 1
    with pytest.raises(Unsupported, match="must begin with a whole number above 0, but it is 'all'"):
        set_threads({"OMP_NUM_THREADS": "all"})
