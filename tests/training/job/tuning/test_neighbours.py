"""A job gives up threads for other processes and takes them back when these end."""

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
from tests.support.job.noted import Noted
from tuning.neighbours import SharedCpus
from tuning.thread_control import ThreadControl, is_fixed, set_threads


def threads_after(cpus: int, largest: int, *others: float) -> list[int]:
    shared = SharedCpus(cpus, largest)
    return [shared.update(each) for each in others]


def test_one_of_two_threads_makes_way_for_a_busy_process() -> None:
    """Beside two waiting threads, it gets 2/3 of a CPU, and then a whole one. The thread returns after two calm
    readings."""
    assert threads_after(2, 2, 0.0, 0.67, 1.0, 1.0, 0.1, 0.0, 0.0) == [2, 1, 1, 1, 1, 2, 2]


def test_a_little_load_changes_nothing_in_either_direction() -> None:
    assert threads_after(2, 2, 0.5, 0.59, 0.3) == [2, 2, 2]
    assert threads_after(2, 2, 0.61, 0.5, 0.3, 0.26, 0.26) == [1, 1, 1, 1, 1]
    # One calm reading is not enough.
    assert threads_after(2, 2, 0.61, 0.2, 0.3, 0.2, 0.3, 0.2, 0.2) == [1, 1, 1, 1, 1, 1, 2]


def test_eight_cpus_lose_one_thread_for_each_busy_process() -> None:
    """Eight threads and one other: 8/9 of a CPU for each. Eight and three: 8 * 3 / 11 = 2.2 CPUs for the three."""
    assert threads_after(8, 8, 8 / 9, 1.0) == [7, 7]
    assert threads_after(8, 8, 24 / 11, 2.6, 3.0) == [6, 6, 5]
    # More load than CPUs leaves one thread; a limit below the number of CPUs leaves room for others.
    assert threads_after(8, 8, 8.0) == [1]
    assert threads_after(8, 4, 3.5, 4.7) == [4, 3]


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


def test_steps_count_and_the_first_change_is_reported(two_threads: None) -> None:
    """Readings one second apart: the others use all CPUs, then none."""
    cpus = len(os.sched_getaffinity(0))
    readings = [CpuReading(at, cpus * min(at, 2.0), 0.0) for at in range(1, 6)]
    events, following = Noted(), iter(readings)
    control = ThreadControl(events, CpuReading(0.0, 0.0, 0.0), lambda: next(following))
    assert (control.largest, control.is_quiet) == (2, True)
    counts = []
    for _ in readings:
        control.on_step_end(None, None, None)
        counts.append(torch.get_num_threads())
    assert counts == [1, 1, 1, 2, 2]
    assert control.metrics() == {"machine/steps_with_fewer_threads_percent": 60.0, "machine/thread_changes": 2}
    assert events.messages == [f"other processes use {cpus:.1f} CPUs: 1 of 2 threads are in use until they end"]


def test_a_fixed_number_never_changes(two_threads: None) -> None:
    control = ThreadControl(Noted(), None)
    control.on_step_end(None, None, None)
    control.limit(1)
    assert (control.largest, control.is_quiet, control.metrics()) == (0, True, {})
    assert torch.get_num_threads() == 2


def test_the_limit_of_a_trial_and_a_compiler_fix_the_number(two_threads: None) -> None:
    control = ThreadControl(Noted(), CpuReading(0.0, 0.0, 0.0), lambda: CpuReading(1.0, 1e6, 0.0))
    control.check()
    assert torch.get_num_threads() == 1
    control.fix()
    assert torch.get_num_threads() == 2
    control = ThreadControl(Noted(), CpuReading(0.0, 0.0, 0.0))
    control.limit(1)
    assert (control.largest, torch.get_num_threads()) == (1, 1)


def test_a_real_neighbour_is_measured(two_threads: None) -> None:
    """A process that is always busy uses some of our CPUs, however many others do."""
    first = read()
    assert first is not None
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        time.sleep(1.0)
        last = read()
        process.kill()
    assert last is not None
    assert 0.05 < others_cpus(first, last) <= len(os.sched_getaffinity(0)) + 0.05


def test_threads_at_the_start_follow_the_variable(two_threads: None) -> None:
    set_threads({"OMP_NUM_THREADS": "1"})
    assert torch.get_num_threads() == 1
