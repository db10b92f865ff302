"""The local service when a process is killed or a folder cannot be used."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import time
from pathlib import Path

import pytest

from state.folders import record
from tests.support.services.following import (
    EMITS_EVENTS,
    RUNS_UNTIL_STOPPED,
    ended,
    follow,
    running,
    supervisor_pid,
    until,
)
from tests.support.services.harness import LocalHarness
from training.contract.errors import JobExists
from training.contract.failures import failure_of
from training.services.launcher import Job, submit
from training.services.local.service import LocalService
from training.services.supervision.processes import marked_processes

ROOT = Path(__file__).resolve().parents[4]


class TestFaults:
    def test_a_job_whose_supervisor_is_killed_fails(self, harness: LocalHarness) -> None:
        script = """
            import subprocess, sys, time
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
            print("running", flush=True); time.sleep(300)
        """
        job = submit(harness.service, harness.request(script))
        running(job)
        base = str(harness.job_folder().resolve() / "opt" / "ml")
        until(lambda: len(marked_processes(base)) == 2)
        os.kill(supervisor_pid(harness), signal.SIGKILL)
        until(lambda: job.describe()["TrainingJobStatus"] == "Failed")
        assert marked_processes(base) == []
        description, lines = ended(job)
        assert lines == ["running"]
        assert "supervisor is gone" in description["FailureReason"]
        assert failure_of(description, [], lines).failure_class == "Killed"
        assert description["BillableSecondsExact"] >= 0
        assert job.describe() == harness.again().describe("job") == description
        job.stop()

    def test_a_killed_supervisor_takes_its_script_along_and_frees_its_cores(self, harness: LocalHarness) -> None:
        environment = {"TRAINFARE_CORES": str(len(os.sched_getaffinity(0)))}
        job = submit(harness.service, harness.request(RUNS_UNTIL_STOPPED, environment=environment))
        running(job)
        os.kill(supervisor_pid(harness), signal.SIGKILL)
        until(lambda: not harness.has_processes("job"))
        second = submit(harness.service, harness.request("print(1)", name="second", environment=environment))
        assert ended(second)[0]["TrainingJobStatus"] == "Completed"
        assert job.describe()["TrainingJobStatus"] == "Failed"

    def test_no_process_of_a_script_outlives_its_job(self, harness: LocalHarness) -> None:
        """The survivors have another session and none of the job's variables, and inherit what a shell passes on."""
        environment = {"TRAINFARE_CORES": str(len(os.sched_getaffinity(0)))}
        script = """
            import os, time
            os.system("env -i setsid sh -c 'sleep 600 & echo $$ $! > new; mv new pids; wait' &")
            while not os.path.exists("pids"): time.sleep(0.01)
            print(open("pids").read().strip())
        """
        description, lines = ended(submit(harness.service, harness.request(script, environment=environment)))
        survivors = [pid for pid in lines[0].split() if Path("/proc", pid).exists()]
        assert (description["TrainingJobStatus"], survivors) == ("Completed", [])
        second = submit(harness.service, harness.request("print(1)", name="second", environment=environment))
        assert ended(second)[0]["TrainingJobStatus"] == "Completed"

    def test_a_job_outlives_a_killed_launcher(self, harness: LocalHarness, tmp_path: Path) -> None:
        request = tmp_path / "request.json"
        request.write_text(json.dumps(harness.request(EMITS_EVENTS.replace("0.02", "0.2"))))
        program = f"""
            import json, pathlib
            from tests.support.services.following import follow
            from training.services.launcher import submit
            from training.services.local.service import LocalService
            service = LocalService(pathlib.Path({str(harness.root)!r}))
            for update in follow(submit(service, json.loads(pathlib.Path({str(request)!r}).read_text()))):
                for event in update.events: print(event.seq, flush=True)
        """
        launcher = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert launcher.stdout
        assert launcher.stdout.readline() == b"0\n"
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.communicate()
        job = Job(harness.service, "job")
        assert job.describe()["TrainingJobStatus"] == "InProgress"
        assert [event.seq for update in follow(job) for event in update.events] == list(range(20))
        assert job.describe()["TrainingJobStatus"] == "Completed"

    def test_only_one_of_eight_concurrent_creators_succeeds(self, harness: LocalHarness) -> None:
        requests = [harness.request(f"print({number})") for number in range(8)]
        with multiprocessing.get_context("fork").Pool(8) as pool:
            succeeded = pool.starmap(_creates, [(harness.root, request) for request in requests])
        assert sorted(succeeded) == [False] * 7 + [True]
        _, lines = ended(Job(harness.service, "job"))
        assert lines == [str(succeeded.index(True))]
        assert [path.name for path in harness.job_folder().parent.iterdir()] == ["job"]

    def test_a_creator_that_is_killed_leaves_a_complete_job_or_none(self, harness: LocalHarness) -> None:
        started = time.monotonic()
        harness.service.create(harness.request("print('ran')", name="job-whole"))
        whole_seconds = time.monotonic() - started
        kept = 0
        for number in range(20):
            name = f"job-{number}"
            request = harness.request("print('ran')", name=name)
            creator = os.fork()
            if creator == 0:
                try:
                    harness.service.create(request)
                finally:
                    os._exit(0)
            if number < 19:
                time.sleep(number / 10 * whole_seconds)  # From before the start to after the end.
            else:
                until(harness.job_folder(name).exists)
            os.kill(creator, signal.SIGKILL)
            os.waitpid(creator, 0)
            kept += harness.job_folder(name).exists()
            description, lines = ended(submit(harness.service, request))
            assert (description["TrainingJobStatus"], lines) == ("Completed", ["ran"])
        assert 0 < kept < 20
        assert len(harness.service.jobs()) == 21

    def test_an_output_that_cannot_be_written_fails_the_job(self, harness: LocalHarness, tmp_path: Path) -> None:
        (tmp_path / "taken").touch()
        script = "import os; open(os.environ['SM_MODEL_DIR'] + '/w', 'w').close()"
        request = harness.request(script) | {"OutputDataConfig": {"S3OutputPath": str(tmp_path / "taken")}}
        description, _ = ended(submit(harness.service, request))
        assert description["TrainingJobStatus"] == "Failed"
        assert str(tmp_path / "taken") in description["FailureReason"]

    @pytest.mark.parametrize(
        ("then", "kept"),
        [
            ("model.symlink_to(base / 'checkpoints' / 'best')", ["weights"]),
            ("shutil.rmtree(base)", []),
        ],
    )
    def test_a_job_without_its_model_folder_completes(
        self, harness: LocalHarness, tmp_path: Path, then: str, kept: list[str]
    ) -> None:
        script = f"""
            import os, pathlib, shutil
            model = pathlib.Path(os.environ["SM_MODEL_DIR"])
            base = model.parent
            (base / "checkpoints" / "best").mkdir()
            (base / "checkpoints" / "best" / "weights").write_text("w")
            shutil.rmtree(model)
            {then}
        """
        request = harness.request(script, checkpoint_uri=(tmp_path / "checkpoints").as_uri())
        description, _ = ended(submit(harness.service, request))
        assert (description["TrainingJobStatus"], description.get("FailureReason")) == ("Completed", None)
        assert ("ModelArtifacts" in description) == bool(kept)
        if kept:
            archive = io.BytesIO(harness.read(description["ModelArtifacts"]["S3ModelArtifacts"]))
            with tarfile.open(fileobj=archive, mode="r:gz") as tar:
                assert tar.getnames() == kept

    def test_damaged_inputs_fail_the_job_before_it_starts(self, harness: LocalHarness) -> None:
        request = harness.request("print('ran')", channels={"train": harness.folder("data", {"rows": "1\n"})})
        [data] = harness.root.glob("data-*")
        record(data)
        (data / "rows").write_text("")
        description, lines = ended(submit(harness.service, request))
        assert (description["TrainingJobStatus"], lines) == ("Failed", [])
        reason = f"ClientError: channel 'train': {data} is damaged: it differs from its digest. Run the same command "
        assert description["FailureReason"].startswith(reason)
        assert "BillableTimeInSeconds" not in description
        assert failure_of(description, [], lines).failure_class == "BadData"

    def test_a_job_that_exceeds_its_memory_fails_out_of_memory(self, harness: LocalHarness) -> None:
        request = harness.request("print('begin'); bytearray(2**30)", environment={"TRAINFARE_MEMORY_GIB": "0.5"})
        description, lines = ended(submit(harness.service, request))
        assert "MemoryError" in description["FailureReason"]
        assert failure_of(description, [], lines).failure_class == "OutOfMemory"


def _creates(root: Path, request: dict) -> bool:
    try:
        LocalService(root).create(request)
    except JobExists:
        return False
    return True
