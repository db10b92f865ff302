"""Test the measurement of what others take from a job's machine, by hand-made counters and by real processes."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from judging.disturbance import disturbances
from measuring.machine_load import JOB_NAME, GpuLoad, MachineLoad, Members, Reading, Total, group_of, job_cpus, read

TICKS = os.sysconf("SC_CLK_TCK")
GROUP = "demo-261123-151035-7551"
BURN = """\
import os, sys, time
from pathlib import Path
result, session = sys.argv[1:]
if session == "another":
    # The first process ends at once: the time of a child that this session waits for would count as this session's.
    if os.fork():
        os._exit(0)
    os.setsid()
while time.process_time() < 1.0:
    pass
Path(result + ".part").write_text(str(time.process_time()))
os.rename(result + ".part", result)
"""


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
    assert reading is not None
    # user, nice, system, irq and softirq; not idle and waiting.
    assert (reading.busy, reading.steal) == (100 + 5 + 20 + 2 + 3, 7)
    assert reading.sessions == {10: 2 * (4 + 1 + 2)}
    assert members.sessions == {10}
    assert (reading.throttled, reading.memory_stalled) == (1.5, 2.5)
    cgroup = root / "sys" / "fs" / "cgroup"
    (cgroup / "cpu.stat").unlink()
    (cgroup / "cpu").mkdir()
    (cgroup / "cpu" / "cpu.stat").write_text("nr_throttled 2\nthrottled_time 1500000000\n")
    older = read(Members(GROUP), root)
    assert older is not None
    assert older.throttled == 1.5
    assert read(Members(GROUP), root / "without counters") is None
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


@pytest.fixture
def _job(monkeypatch: pytest.MonkeyPatch, plain_interpreter: str) -> None:
    """Be a job, whose processes are its own children and not those of a fork server."""
    monkeypatch.setenv(JOB_NAME, f"{GROUP}-none-a0r0")


def measured(folder: Path, environment: dict[str, str], *, session: str) -> tuple[float, float, float]:
    """Run a process that burns a CPU, in the session of the job or in `another`.

    Return its CPU seconds, those of all others, and those of the whole machine.

    The job has a session of its own. The session of this test has other tests in it, and whatever their ended
    children have taken since long before would count as the job's.
    """
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=fork, initializer=os.setsid) as job:
        return job.submit(_measured_in_job, folder, environment, session).result()


def _measured_in_job(folder: Path, environment: dict[str, str], session: str) -> tuple[float, float, float]:
    load = MachineLoad(reads_gpu=False, interval_seconds=0.05).start()
    begin, before = time.monotonic(), read(Members(""))
    # A process burns a CPU until it has used 1 s of it.
    result, deadline = folder / "seconds", time.monotonic() + 300
    subprocess.run([sys.executable, "-c", BURN, str(result), session], env=os.environ | environment, check=True)
    while not result.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    burnt = float(result.read_text())
    metrics = load.metrics()
    elapsed, after = time.monotonic() - begin, read(Members(""))
    assert before is not None
    assert after is not None
    others = metrics["machine/others_cpu_percent"] / 100 * elapsed * job_cpus()
    return burnt, others, after.busy - before.busy


TOLERANCE_SECONDS = 0.3
"""A few ticks of 10 ms per process and reading, and the time between the readings of the test and of the thread."""


@pytest.mark.usefixtures("_job")
def test_a_process_of_others_that_burns_a_cpu_is_detected(tmp_path: Path) -> None:
    name = "demo-261123-151035-0000-none-a0r0"
    burnt, others, _ = measured(tmp_path, {JOB_NAME: name}, session="another")
    assert others > burnt - TOLERANCE_SECONDS
    assert disturbances(lambda name: 100 * others / (1.5 * job_cpus()) if "others" in name else 0.0)


@pytest.mark.parametrize(("name", "session"), [("", "this"), (f"{GROUP}-none-a0r1", "another")])
@pytest.mark.usefixtures("_job")
def test_the_jobs_of_the_group_are_not_others(tmp_path: Path, name: str, session: str) -> None:
    burnt, others, busy = measured(tmp_path, {JOB_NAME: name}, session=session)
    assert others < busy - burnt + TOLERANCE_SECONDS


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
