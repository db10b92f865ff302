"""Test the measurement of what others take from a job's machine, by hand-made counters."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from training.job.measuring.machine_load import JOB_NAME, GpuLoad, Members, Reading, Total, group_of, read

TICKS = os.sysconf("SC_CLK_TCK")
GROUP = "demo-261123-151035-7551"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Counters of a machine with one job of the group, one other job and one process of the system."""
    proc, cgroup = tmp_path / "proc", tmp_path / "sys" / "fs" / "cgroup"
    (proc / "pressure").mkdir(parents=True)
    cgroup.mkdir(parents=True)
    numbers = [TICKS * seconds for seconds in (100, 5, 20, 1_000, 50, 2, 3, 7, 0, 0)]
    (proc / "stat").write_text(f"cpu  {' '.join(map(str, numbers))}\ncpu0 1 2 3\n")
    (proc / "pressure" / "memory").write_text("some avg10=0.00 total=2500000\nfull avg10=0.00 total=9\n")
    (cgroup / "cpu.stat").write_text("usage_usec 5\nnr_throttled 2\nthrottled_usec 1500000\n")
    for pid, session, name in ((10, 10, f"{GROUP}-none-a0r0"), (11, 10, ""), (20, 20, "other"), (30, 1, "")):
        (proc / str(pid)).mkdir()
        times = " ".join(str(TICKS * seconds) for seconds in (4, 1, 2, 0))
        (proc / str(pid) / "stat").write_text(f"{pid} (a (b) c) S 1 {pid} {session} 0 -1 0 0 0 0 0 {times} 20 0")
        (proc / str(pid) / "environ").write_text(f"A=b\0{JOB_NAME}={name}\0")
    return tmp_path


def test_the_counters_are_read(root: Path) -> None:
    members = Members(GROUP)
    reading = read(members, root)
    # user, nice, system, irq and softirq; not idle and waiting.
    assert (reading.busy, reading.steal) == (100 + 5 + 20 + 2 + 3, 7)
    assert reading.sessions == {10: 2 * (4 + 1 + 2)}
    assert members.sessions == {10}
    assert (reading.throttled, reading.memory_stalled) == (1.5, 2.5)
    cgroup = root / "sys" / "fs" / "cgroup"
    (cgroup / "cpu.stat").unlink()
    (cgroup / "cpu").mkdir()
    (cgroup / "cpu" / "cpu.stat").write_text("nr_throttled 2\nthrottled_time 1500000000\n")
    assert read(Members(GROUP), root).throttled == 1.5
    assert group_of("squad-minilm-261123-151035-7551-none-a0r0") == "squad-minilm-261123-151035-7551"
    assert group_of("my-job") == "my-job"


def reading(at: float, busy: float, sessions: dict[int, float], steal: float = 0.0) -> Reading:
    return Reading(at=at, busy=busy, steal=steal, sessions=sessions, throttled=at / 50)


def test_others_are_all_but_the_sessions_of_the_group() -> None:
    total = Total(reading(0, 100, {1: 10}), reading(0, 100, {1: 10}))
    total.add(reading(10, 112, {1: 18, 2: 1}))
    # Session 2 began later and has ended by now; its last second still counts as ours.
    total.add(reading(20, 130, {1: 26}, steal=2))
    # 30 busy seconds, 16 + 1 of them ours, of 20 s on 2 CPUs.
    metrics = total.metrics(cpus=2)
    assert metrics["machine/others_cpu_percent"] == pytest.approx(100 * 13 / 40)
    assert metrics["machine/others_cpus"] == pytest.approx(13 / 20)
    assert metrics["machine/steal_percent"] == pytest.approx(100 * 2 / 40)
    assert metrics["machine/throttled_percent"] == pytest.approx(100 * 0.4 / 20)
    assert "machine/memory_stalled_percent" not in metrics


def test_slowdowns_of_the_gpus_in_use_are_counted() -> None:
    load = GpuLoad()
    assert load.metrics() == {}
    load.add_gpus("98, 1980, 1980, 0x0000000000000004\n0, 345, 1980, 0x0000000000000001\n")
    load.add_gpus("97, 990, 1980, 0x0000000000000020\n99, 1485, 1980, 0x0000000000000000\n")
    load.add_gpus("[N/A], 0, 0, 0x0\nno numbers\n")
    assert load.metrics() == {"machine/gpu_clock_percent": 75.0, "machine/gpu_slowdown_percent": 50.0}


def test_a_gpu_that_another_session_uses_too_is_shared() -> None:
    session, other = os.getsid(0), os.getpid()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        load = GpuLoad()
        load.add_processes(f"GPU-a, {other}\nGPU-b, {stranger.pid}\n", {session})  # the stranger's GPU is another one
        load.add_processes(f"GPU-a, {other}\nGPU-a, {stranger.pid}\nGPU-b, [N/A]\n", {session})
        load.add_processes(f"GPU-a, {other}\nGPU-a, 4194305\n", {session})  # no such process: one of the host's
        load.add_processes(f"GPU-a, {stranger.pid}\n", {session})  # the job is not on a GPU yet
        stranger.kill()
    assert load.metrics() == {"machine/gpu_shared_percent": pytest.approx(100 / 3)}
