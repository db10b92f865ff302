"""The service of Slurm when jobs are requeued, preempted, canceled or killed, and when daemons and launchers die."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.services.following import RUNS_UNTIL_STOPPED, ended, running, statuses, until
from tests.support.services.harness import SlurmHarness
from tests.support.services.slurm_cluster import SlurmCluster
from training.contract.failures import failure_of
from training.contract.service import Description
from training.services.launcher import Job, submit
from training.services.supervision.job_folder import ALIVE_SECONDS
from training.services.supervision.processes import marked_processes

pytestmark = pytest.mark.slurm

ROOT = Path(__file__).resolve().parents[4]

RESUMES = """
    import os, pathlib, signal, sys, time
    {on_term}
    print("began", time.time(), flush=True)
    base = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"])
    saved = base / "checkpoints" / "step"
    if saved.exists():
        print("resumed", saved.read_text(), [each.name for each in base.iterdir() if each.name == "scratch"])
        print("lived", time.time())
        sys.exit()
    saved.write_text("7"); (base / "scratch").touch()
    print("running", flush=True)
    while True:
        print("lived", time.time(), flush=True)
        time.sleep(0.1)
"""
"""Script that saves a checkpoint in its first attempt and completes in its second one."""
PATIENT = {"TRAINFARE_STOP_GRACE_SECONDS": "60"}
DIES, IGNORES = "", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


TICKS = """
    import time
    print("running", flush=True)
    while True:
        print(time.time(), flush=True)
        time.sleep(0.1)
"""


def supervisor_pid_of(harness: SlurmHarness, name: str = "job") -> int:
    """Return the process ID of the allocation's script, which is the supervisor."""
    [script] = marked_processes(str(harness.job_folder(name).resolve() / "opt" / "ml"))
    return int(Path(f"/proc/{script}/stat").read_text().rpartition(")")[2].split()[1])


WAITS = """
    import os, pathlib, sys, time
    with open(sys.argv[2], "a") as runs: runs.write("ran\\n")
    print("running", flush=True)
    while not os.path.exists(sys.argv[4]): time.sleep(0.05)
    print("done", flush=True)
"""
"""Script that appends a line to the file --a, and waits for the file --b."""


def waiting_request(harness: SlurmHarness, name: str = "job", **fields: Any) -> Any:
    paths = {"a": str(harness.root / f"runs-{name}"), "b": str(harness.root / "go")}
    return harness.request(WAITS, name=name, hyperparameters=paths, **fields)


def runs(harness: SlurmHarness, name: str = "job") -> int:
    return len((harness.root / f"runs-{name}").read_text().splitlines())


def slurm_id(harness: SlurmHarness, name: str = "job") -> str:
    return (harness.job_folder(name) / "slurm-id").read_text()


def resuming(harness: SlurmHarness, on_term: str = DIES, name: str = "job", **fields: Any) -> Job:
    """Submit a job that completes in its second attempt, and wait until its first one has saved a checkpoint."""
    checkpoints = (harness.root / f"checkpoints-{name}").as_uri()
    script = RESUMES.format(on_term=on_term)
    job = submit(harness.service, harness.request(script, name=name, checkpoint_uri=checkpoints, **fields))
    running(job)
    return job


def check_resumed(job: Job, idle_seconds: float = 0) -> None:
    """Follow a job of `resuming` to its end, and check that it resumed and what it is billed.

    `idle_seconds` are those for which the second allocation waits for the attempt before.
    """
    description, lines = ended(job)
    numbers = [number for number, line in enumerate(lines) if line.startswith("began")]
    first, second = [
        [float(line.split()[1]) for line in part if line.startswith(("began", "lived"))]
        for part in (
            lines[: numbers[1]],
            lines[numbers[1] :],
        )
    ]
    assert lines[numbers[1] + 1] == "resumed 7 []"  # the checkpoint, and a container of its own
    assert description["TrainingJobStatus"] == "Completed"
    assert statuses(description) == [
        *("Starting", "Downloading", "Training", "Interrupted"),
        *("Downloading", "Training", "Uploading", "Completed"),
    ]
    seconds, waited = first[-1] - first[0] + second[-1] - second[0], second[0] - first[-1]
    # An allocation begins before its script.
    assert 0 <= description["BillableSecondsExact"] - seconds - idle_seconds < waited / 2
    assert description["TrainingStartTime"].timestamp() < first[0]
    assert description["TrainingEndTime"].timestamp() > second[-1]


class TestInterruptions:
    @pytest.mark.gate
    def test_a_requeued_job_resumes_and_is_billed_without_its_wait(
        self, harness: SlurmHarness, shared_cluster: SlurmCluster
    ) -> None:
        """The second job ignores SIGTERM, so Slurm kills its supervisor with it after KillWait, 5 s."""
        jobs = [
            resuming(harness, on_term, name, environment=PATIENT)
            for name, on_term in (("job", DIES), ("stubborn", IGNORES))
        ]
        ids = [slurm_id(harness, job.name) for job in jobs]
        shared_cluster.run("scontrol", "requeue", ",".join(ids))
        until(lambda: jobs[0].describe()["SecondaryStatus"] == "Restarting", 60)
        message = jobs[0].describe()["SecondaryStatusTransitions"][-1]["StatusMessage"]
        assert message == "Waiting for Slurm (BeginTime)"
        for job in jobs:
            check_resumed(job)
        assert [slurm_id(harness, job.name) for job in jobs] == ids

    def test_a_preempted_job_resumes(self, harness: SlurmHarness, shared_cluster: SlurmCluster) -> None:
        environment = {"TRAINFARE_CORES": "8", "TRAINFARE_SERVICE_FIELDS": '{"partition": "low"}'}
        job = resuming(harness, environment=environment)
        shared_cluster.run("sbatch", "--partition=high", "--cpus-per-task=8", "--output=/dev/null", "--wrap", "true")
        check_resumed(job)

    def test_the_attempt_of_a_lost_node_writes_nothing_more(
        self, tmp_path: Path, slurm_installed: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with SlurmCluster(nodes=2, node_timeout_seconds=3) as cluster:
            harness = SlurmHarness(tmp_path, cluster, monkeypatch)
            job = resuming(harness, IGNORES)
            node, first = cluster.run("squeue", "-h", "-o", "%N").strip(), supervisor_pid_of(harness)
            cluster.kill(f"slurmd-{node}")
            until(lambda: job.describe()["SecondaryStatus"] == "Restarting", 60)
            assert Path(f"/proc/{first}").exists()
            check_resumed(job, idle_seconds=2 * ALIVE_SECONDS)  # no line of the first attempt follows the second's
            assert not Path(f"/proc/{first}").exists()
            assert not harness.has_processes("job")
            supervisor_log = (harness.job_folder() / "supervisor.txt").read_text()
            assert supervisor_log.count("The job has been started again elsewhere.") == 1


class TestDaemons:
    @pytest.mark.gate
    def test_a_killed_controller_loses_nothing(self, own: SlurmHarness, cluster: SlurmCluster) -> None:
        submitted = [submit(own.service, waiting_request(own))]
        running(submitted[0])
        submitted.append(submit(own.service, waiting_request(own, "pending", environment={"TRAINFARE_CORES": "8"})))
        cluster.wait_until_saved(slurm_id(own, "pending"))
        cluster.kill("slurmctld")
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(submit, own.again(), waiting_request(own, "late"))
            assert [job.describe()["TrainingJobStatus"] for job in submitted] == ["InProgress"] * 2
            (own.root / "go").touch()
            assert ended(submitted[0]) == (submitted[0].describe(), ["running", "done"])
            assert not late.done()
            cluster.start("slurmctld")
            submitted.append(late.result(60))
        assert [ended(job)[0]["TrainingJobStatus"] for job in submitted] == ["Completed"] * 3
        assert [runs(own, job.name) for job in submitted] == [1, 1, 1]

    def test_a_forgotten_submission_is_made_again_once(self, own: SlurmHarness, cluster: SlurmCluster) -> None:
        sleep = ["--output=/dev/null", "--cpus-per-task=8", "--wrap", "sleep 600"]
        known = cluster.run("sbatch", "--parsable", *sleep).strip()
        cluster.wait_until_saved(known)
        state = own.root / "state"
        subprocess.run(["cp", "-r", cluster.folder / "state", state], check=True)
        job = submit(own.service, waiting_request(own))
        cluster.kill("slurmctld")
        subprocess.run(["rm", "-r", cluster.folder / "state"], check=True)
        subprocess.run(["mv", state, cluster.folder / "state"], check=True)
        cluster.start("slurmctld")
        with ThreadPoolExecutor(2) as pool:
            looks = [pool.submit(own.again().describe, "job") for _ in range(2)]
            assert [look.result(60)["TrainingJobStatus"] for look in looks] == ["InProgress"] * 2
        assert cluster.run("squeue", "-h", "--name=job", "-o", "%i").split() == [slurm_id(own)]
        cluster.run("scancel", known)
        (own.root / "go").touch()
        assert ended(job)[0]["TrainingJobStatus"] == "Completed"
        assert runs(own) == 1

    def test_a_job_outlives_a_restart_of_its_node(self, own: SlurmHarness, cluster: SlurmCluster) -> None:
        job = submit(own.service, waiting_request(own))
        running(job)
        cluster.kill("slurmd-node1")
        cluster.start("slurmd-node1")
        (own.root / "go").touch()
        description, lines = ended(job)
        assert (description["TrainingJobStatus"], lines) == ("Completed", ["running", "done"])
        assert statuses(description) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]


def _stopped_and_billed(description: Description, lines: list[str]) -> None:
    """Check the billed seconds of a stopped job against the times that its script printed."""
    assert description["TrainingJobStatus"] == "Stopped"
    times = [float(line) for line in lines if line != "running"]
    assert 0 <= description["BillableSecondsExact"] - (times[-1] - times[0]) < 5


class TestCancels:
    def test_jobs_canceled_in_slurm_are_stopped(self, harness: SlurmHarness, shared_cluster: SlurmCluster) -> None:
        shared_cluster.drain()
        pending = submit(harness.service, harness.request("print(1)", name="pending"))
        until(lambda: pending.describe()["SecondaryStatus"] == "Pending", 60)
        shared_cluster.run("scancel", slurm_id(harness, "pending"))
        description, lines = ended(pending)
        shared_cluster.resume()
        assert (description["TrainingJobStatus"], lines) == ("Stopped", [])
        assert "BillableSecondsExact" not in description

        job = submit(harness.service, harness.request(TICKS))
        running(job)
        shared_cluster.run("scancel", slurm_id(harness))
        description, lines = ended(job)
        assert failure_of(description, [], lines).failure_class == "Stopped"
        _stopped_and_billed(description, lines)
        assert not harness.has_processes("job")

    def test_waiting_jobs_are_stopped(self, harness: SlurmHarness, shared_cluster: SlurmCluster) -> None:
        shared_cluster.drain()
        pending = submit(harness.service, harness.request("print(1)", name="pending"))
        pending.stop()
        description, lines = ended(pending)
        shared_cluster.resume()
        assert (description["TrainingJobStatus"], lines) == ("Stopped", [])
        assert "BillableSecondsExact" not in description

        job = submit(harness.service, harness.request(TICKS))
        running(job)
        shared_cluster.run("scontrol", "requeuehold", slurm_id(harness))
        until(lambda: job.describe()["SecondaryStatus"] == "Restarting", 60)
        until(lambda: shared_cluster.run("squeue", "-h", "-o", "%T", "-j", slurm_id(harness)) == "PENDING\n", 60)
        waited_from = float(job.service.logs("job").lines[-1])
        until(lambda: time.time() - waited_from > 6, 60)  # a wait that would be seen in the billed seconds
        job.stop()
        description, lines = ended(job)
        _stopped_and_billed(description, lines)
        job.stop()  # a job that has ended
        assert job.describe() == description


class TestKills:
    def test_killed_processes_fail_the_job(self, harness: SlurmHarness) -> None:
        killed = {}
        for name in ("supervisor", "script"):
            job = submit(harness.service, harness.request(RUNS_UNTIL_STOPPED, name=name))
            running(job)
            [script] = marked_processes(str(harness.job_folder(name).resolve() / "opt" / "ml"))
            os.kill(supervisor_pid_of(harness, name) if name == "supervisor" else script, signal.SIGKILL)
            killed[name], lines = ended(job)
            assert lines == ["running"]
            assert killed[name]["TrainingJobStatus"] == "Failed"
            assert failure_of(killed[name], [], lines).failure_class == "Killed"
            assert not harness.has_processes(name)
            assert harness.again().describe(name) == killed[name]
        number = slurm_id(harness, "supervisor")
        start = f"InternalServerError: Killed: Slurm ended job {number}: JobState=FAILED, Reason="
        assert killed["supervisor"]["FailureReason"].startswith(start)
        assert killed["supervisor"]["FailureReason"].endswith(", ExitCode=0:9.")
        assert "Killed by SIGKILL" in killed["script"]["FailureReason"]

    def test_a_job_that_slurm_forgot_fails(
        self, tmp_path: Path, slurm_installed: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with SlurmCluster(minimum_job_age_seconds=2) as cluster:
            harness = SlurmHarness(tmp_path, cluster, monkeypatch)
            job = submit(harness.service, harness.request(RUNS_UNTIL_STOPPED))
            running(job)
            os.kill(supervisor_pid_of(harness), signal.SIGKILL)
            until(lambda: not cluster.run("squeue", "-h", "--states=all"), 60)
            description, lines = ended(job)
            assert (description["TrainingJobStatus"], lines) == ("Failed", ["running"])
            failure = failure_of(description, [], lines)
            sentence = f"Slurm no longer knows job {slurm_id(harness)}, and its supervisor wrote no result."
            assert (failure.failure_class, failure.message) == ("Vanished", sentence)
            assert job.describe() == harness.again().describe("job") == description

    @pytest.mark.parametrize(
        ("wrapper", "moment"),
        [
            ("touch {here}/at; sleep 600", "in sbatch, which dies too"),
            ('touch {here}/at; sleep 1; exec {sbatch} "$@"', "before the submission"),
            ('{sbatch} "$@"; touch {here}/at; sleep 1', "after the submission"),
        ],
    )
    def test_a_launcher_killed_while_it_submits_leaves_one_job(
        self, harness: SlurmHarness, shared_cluster: SlurmCluster, tmp_path: Path, wrapper: str, moment: str
    ) -> None:
        (harness.root / "go").touch()
        request = waiting_request(harness)
        sbatch = shared_cluster.environment["PATH"].split(":")
        real = next(path for folder in sbatch if (path := Path(folder, "sbatch")).exists())
        here = tmp_path / "bin"
        here.mkdir()
        (here / "sbatch").write_text("#!/bin/sh\n" + wrapper.format(here=here, sbatch=real) + "\n")
        (here / "sbatch").chmod(0o755)
        program = f"""
            import json, pathlib, sys
            from training.services.launcher import submit
            from training.services.slurm.service import SlurmService
            submit(SlurmService(pathlib.Path({str(harness.root / "slurm")!r})), json.load(sys.stdin))
        """
        launcher = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            env=os.environ | {"PATH": f"{here}:{os.environ['PATH']}"},
            start_new_session=True,
        )
        assert launcher.stdin
        launcher.stdin.write(json.dumps(request).encode())
        launcher.stdin.close()
        until((here / "at").exists, 60)
        if "dies" in moment:
            os.killpg(launcher.pid, signal.SIGKILL)
        launcher.kill()
        launcher.wait()
        job = submit(harness.again(), request)
        description, lines = ended(job)
        assert (description["TrainingJobStatus"], lines) == ("Completed", ["running", "done"]), description.get(
            "FailureReason"
        )
        assert runs(harness) == 1


class TestNodes:
    def test_a_node_without_the_python_or_the_folder_fails_the_job(
        self, harness: SlurmHarness, shared_cluster: SlurmCluster
    ) -> None:
        way_on = ": put TRAINFARE_HOME, trainfare and its Python on file systems that all nodes share, or set "
        fields = {"TRAINFARE_SERVICE_FIELDS": '{"python": "/nowhere/python"}'}
        description, lines = ended(submit(harness.service, harness.request("print(1)", environment=fields)))
        assert (description["TrainingJobStatus"], lines) == ("Failed", [])
        sentence = f"{socket.gethostname()} cannot read the job's folder or start its Python (JobState=FAILED, "
        message = failure_of(description, [], lines).message
        assert message.startswith(sentence)
        assert message.endswith(f"ExitCode=97:0){way_on}slurm.python.")

        shared_cluster.drain()
        job = submit(harness.service, harness.request("print(1)", name="hidden"))
        folder, number = harness.job_folder("hidden"), slurm_id(harness, "hidden")
        folder.rename(harness.root / "elsewhere")
        shared_cluster.resume()
        until(lambda: "JobState=FAILED" in shared_cluster.run("scontrol", "show", "job", number), 60)
        (harness.root / "elsewhere").rename(folder)
        description, lines = ended(job)
        assert (description["TrainingJobStatus"], lines) == ("Failed", [])
        message = failure_of(description, [], lines).message
        assert message.startswith(f"the node cannot write to {folder.resolve()} (JobState=FAILED, ")
        assert message.endswith(f"{way_on}slurm.python.")

    def test_a_job_on_two_nodes_meets_and_is_stopped_everywhere(
        self, tmp_path: Path, slurm_installed: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script = """
            import os, signal, sys, time, torch, torch.distributed
            def leave(*_):
                time.sleep(2 * (os.environ["RANK"] == "0")); os.write(1, b"saved\\n"); sys.exit()
            signal.signal(signal.SIGTERM, leave)
            torch.distributed.init_process_group("gloo")
            total = torch.tensor(float(os.environ["RANK"]) + 1)
            torch.distributed.all_reduce(total)
            names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURMD_NODENAME", "SM_CURRENT_HOST")
            print(" ".join([*map(os.environ.get, names), str(total.item())]) + "\\n", end="", flush=True)
            time.sleep(300)
        """
        with SlurmCluster(nodes=2) as cluster:
            harness = SlurmHarness(tmp_path, cluster, monkeypatch)
            job = submit(harness.service, harness.request(script, instance_count=2, environment=PATIENT))
            until(lambda: len([line for line in job.service.logs("job").lines if line.endswith(" 3.0")]) == 2, 40)
            ranks = sorted(line.split() for line in job.service.logs("job").lines if line.endswith(" 3.0"))
            assert [rank[:3] for rank in ranks] == [["0", "2", "0"], ["1", "2", "0"]]
            assert sorted(rank[3] for rank in ranks) == ["node1", "node2"]
            assert [rank[4] for rank in ranks] == [rank[3] for rank in ranks]
            job.stop()
            description, lines = ended(job)
            assert (description["TrainingJobStatus"], lines.count("saved")) == ("Stopped", 2)
            until(lambda: not harness.has_processes("job"), 60)
