"""The local service alone: faults, slots, and what only a folder on this machine can show."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.places import LocalPlace
from tests.services.test_contract import RUNS_ON, SAYS_EVENTS, ended, running, statuses
from training.errors import InputError, JobExists, ServiceError
from training.launcher import Job, failure_of, submit
from training.services.local import LocalService
from training.services.processes import marked

ROOT = Path(__file__).resolve().parents[2]
CORES = len(os.sched_getaffinity(0))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LocalPlace]:
    place = LocalPlace(tmp_path)
    yield place
    for each in place.service.jobs(running_only=True):
        place.service.stop(each["TrainingJobName"])
        ended(Job(place.service, each["TrainingJobName"]))


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def state(place: LocalPlace, name: str = "job") -> dict:
    return json.loads((place.job_folder(name) / "state.json").read_text())


class TestFaults:
    def test_killed_supervisor(self, place: LocalPlace) -> None:
        script = """
            import subprocess, sys, time
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
            print("running", flush=True); time.sleep(300)
        """
        job = submit(place.service, place.request(script))
        running(job)
        base = str(place.job_folder().resolve() / "opt" / "ml")
        until(lambda: len(marked(base)) == 2)
        os.kill(state(place)["SupervisorPid"], signal.SIGKILL)
        until(lambda: job.describe()["TrainingJobStatus"] == "Failed")
        assert marked(base) == []
        description, lines = ended(job)
        assert lines == ["running"]
        assert "supervisor is gone" in description["FailureReason"]
        assert failure_of(description, [], lines)[0] == "Killed"
        assert description["BillableSecondsExact"] >= 0
        assert job.describe() == place.again().describe("job") == description
        job.stop()

    def test_what_a_killed_supervisor_left_keeps_its_core(self, place: LocalPlace) -> None:
        environment = {"TRAINFARE_CORES": str(CORES)}
        job = submit(place.service, place.request(RUNS_ON, environment=environment))
        running(job)
        os.kill(state(place)["SupervisorPid"], signal.SIGKILL)
        second = submit(place.service, place.request("print(1)", name="second", environment=environment))
        until(lambda: second.describe()["SecondaryStatus"] == "Pending")
        assert job.describe()["TrainingJobStatus"] == "Failed"
        assert ended(second)[0]["TrainingJobStatus"] == "Completed"

    def test_killed_launcher(self, place: LocalPlace, tmp_path: Path) -> None:
        request = tmp_path / "request.json"
        request.write_text(json.dumps(place.request(SAYS_EVENTS.replace("0.02", "0.1"))))
        program = f"""
            import json, pathlib
            from training.launcher import submit
            from training.services.local import LocalService
            service = LocalService(pathlib.Path({str(place.root)!r}))
            for update in submit(service, json.loads(pathlib.Path({str(request)!r}).read_text())).follow():
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
        job = Job(place.service, "job")
        assert job.describe()["TrainingJobStatus"] == "InProgress"
        assert [event.seq for update in job.follow() for event in update.events] == list(range(20))
        assert job.describe()["TrainingJobStatus"] == "Completed"

    def test_kill_9_of_the_job(self, place: LocalPlace) -> None:
        job = submit(place.service, place.request(RUNS_ON))
        running(job)
        (pid,) = marked(str(place.job_folder().resolve() / "opt" / "ml"))
        os.kill(pid, signal.SIGKILL)
        description, lines = ended(job)
        assert failure_of(description, [], lines)[0] == "Killed"

    def test_of_eight_creators_one_wins(self, place: LocalPlace) -> None:
        requests = [place.request(f"print({number})") for number in range(8)]
        with multiprocessing.get_context("spawn").Pool(8) as pool:
            won = pool.starmap(_creates, [(place.root, request) for request in requests])
        assert sorted(won) == [False] * 7 + [True]
        _, lines = ended(Job(place.service, "job"))
        assert lines == [str(won.index(True))]
        assert [path.name for path in place.job_folder().parent.iterdir()] == ["job"]

    def test_a_creator_killed_at_any_moment_leaves_a_whole_job_or_none(self, place: LocalPlace) -> None:
        kept = 0
        for number in range(20):
            name = f"job-{number}"
            request = place.request("print('ran')", name=name)
            creator = os.fork()
            if creator == 0:
                try:
                    place.service.create(request)
                finally:
                    os._exit(0)
            # Creating takes some 50 ms: from too early to too late.
            time.sleep(number * 0.004)
            os.kill(creator, signal.SIGKILL)
            os.waitpid(creator, 0)
            kept += place.job_folder(name).exists()
            description, lines = ended(submit(place.service, request))
            assert (description["TrainingJobStatus"], lines) == ("Completed", ["ran"])
        assert 0 < kept < 20
        assert len(place.service.jobs()) == 20

    def test_a_half_made_job_is_none(self, place: LocalPlace) -> None:
        half_made = place.job_folder(".job-abc")
        half_made.mkdir(parents=True)
        (half_made / "request.json").write_text("{")
        assert place.service.jobs() == []
        assert ended(submit(place.service, place.request("pass")))[0]["TrainingJobStatus"] == "Completed"
        assert len(place.service.jobs()) == 1

    def test_a_root_that_is_no_folder_is_one_sentence(self, place: LocalPlace, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(ServiceError, match=r"Job job could not be started: .*file"):
            LocalService(tmp_path / "file").create(place.request("pass"))

    def test_an_output_that_cannot_be_written(self, place: LocalPlace, tmp_path: Path) -> None:
        (tmp_path / "taken").touch()
        script = "import os; open(os.environ['SM_MODEL_DIR'] + '/w', 'w').close()"
        request = place.request(script) | {"OutputDataConfig": {"S3OutputPath": str(tmp_path / "taken")}}
        description, _ = ended(submit(place.service, request))
        assert description["TrainingJobStatus"] == "Failed"
        assert str(tmp_path / "taken") in description["FailureReason"]

    def test_out_of_memory(self, place: LocalPlace) -> None:
        request = place.request("print('begin'); bytearray(2**30)", environment={"TRAINFARE_MEMORY_GIB": "0.5"})
        description, lines = ended(submit(place.service, request))
        assert "MemoryError" in description["FailureReason"]
        assert failure_of(description, [], lines)[0] == "OutOfMemory"


def _creates(root: Path, request: dict) -> bool:
    try:
        LocalService(root).create(request)
    except JobExists:
        return False
    return True


class TestSlots:
    def test_two_jobs_of_one_core_share_none(self, place: LocalPlace) -> None:
        if CORES < 2:
            pytest.skip("needs two cores")
        script = """
            import os, pathlib, sys, time
            here, other = sys.argv[2], sys.argv[4]
            pathlib.Path(here).touch()
            while not pathlib.Path(other).exists(): time.sleep(0.01)
            print(sorted(os.sched_getaffinity(0)), os.environ["OMP_NUM_THREADS"], os.environ["SM_NUM_CPUS"])
        """
        paths = [str(place.root / name) for name in "ab"]
        jobs = []
        for name, here, other in (("first", *paths), ("second", *reversed(paths))):
            # Each waits until the other runs: they end only if they run at the same time.
            hyperparameters = {"a-here": here, "b-other": other}
            jobs.append(submit(place.service, place.request(script, name=name, hyperparameters=hyperparameters)))
        (one,), (two,) = (ended(job)[1] for job in jobs)
        assert one != two
        assert [line.split("] ")[1] for line in (one, two)] == ["1 1", "1 1"]

    def test_two_jobs_of_one_gpu_share_none(self, place: LocalPlace) -> None:
        script = """
            import os, pathlib, sys, time
            pathlib.Path(sys.argv[2]).touch()
            while not pathlib.Path(sys.argv[4]).exists(): time.sleep(0.01)
            print(os.environ["CUDA_VISIBLE_DEVICES"], os.environ["SM_NUM_GPUS"])
        """
        paths = [str(place.root / name) for name in "ab"]
        # Naming the GPUs is all it takes to share them out; what they are is CUDA's business.
        environment = {"CUDA_VISIBLE_DEVICES": "0, GPU-1/x"}
        jobs = []
        for name, here, other in (("first", *paths), ("second", *reversed(paths))):
            fields = {"name": name, "hyperparameters": {"a-here": here, "b-other": other}, "environment": environment}
            request = place.request(script, **fields)
            del request["Environment"]["TRAINFARE_CORES"]
            jobs.append(submit(place.service, request))
        assert sorted(ended(job)[1][0] for job in jobs) == ["0 1", "GPU-1/x 1"]

    def test_more_devices_than_there_are(self, place: LocalPlace) -> None:
        request = place.request("pass", devices=3, environment={"CUDA_VISIBLE_DEVICES": "0,1"})
        description, _ = ended(submit(place.service, request))
        assert description["FailureReason"] == "ClientError: The job wants 3 devices; this machine has 2."

    def test_jobs_wait_in_order_and_are_not_billed_for_it(self, place: LocalPlace) -> None:
        everything = {"environment": {"TRAINFARE_CORES": str(CORES)}}
        first = submit(place.service, place.request(RUNS_ON, name="first", **everything))
        running(first)
        later = []
        for name, cores in (("second", CORES), ("third", 1), ("fourth", CORES)):
            environment = {"TRAINFARE_CORES": str(cores)}
            later.append(submit(place.service, place.request("pass", name=name, environment=environment)))
            until(lambda: later[-1].describe()["SecondaryStatus"] == "Pending")
            assert "TrainingStartTime" not in later[-1].describe()
        time.sleep(0.5)
        first.stop()
        descriptions = [ended(job)[0] for job in later]
        assert [each["TrainingJobStatus"] for each in descriptions] == ["Completed"] * 3
        starts = [each["TrainingStartTime"] for each in descriptions]
        assert starts == sorted(starts)
        for each in descriptions:
            waited = (each["TrainingStartTime"] - each["CreationTime"]).total_seconds()
            held = (each["TrainingEndTime"] - each["TrainingStartTime"]).total_seconds()
            assert waited >= 0.5
            assert each["BillableSecondsExact"] == pytest.approx(held, abs=1e-3)

    def test_a_job_that_waits_can_be_stopped_and_leaves_the_queue(self, place: LocalPlace) -> None:
        everything = {"environment": {"TRAINFARE_CORES": str(CORES)}}
        first = submit(place.service, place.request(RUNS_ON, name="first", **everything))
        running(first)
        second = submit(place.service, place.request("pass", name="second", **everything))
        until(lambda: second.describe()["SecondaryStatus"] == "Pending")
        second.stop()
        description, _ = ended(second)
        assert description["TrainingJobStatus"] == "Stopped"
        assert statuses(description) == ["Starting", "Stopped"]
        assert "BillableTimeInSeconds" not in description
        assert list((place.root / "slots" / "queue").iterdir()) == []

    def test_a_waiting_job_that_is_killed_does_not_hold_up_the_queue(self, place: LocalPlace) -> None:
        everything = {"environment": {"TRAINFARE_CORES": str(CORES)}}
        first = submit(place.service, place.request(RUNS_ON, name="first", **everything))
        running(first)
        second = submit(place.service, place.request("pass", name="second", **everything))
        until(lambda: second.describe()["SecondaryStatus"] == "Pending")
        third = submit(place.service, place.request("pass", name="third", **everything))
        until(lambda: third.describe()["SecondaryStatus"] == "Pending")
        os.kill(state(place, "second")["SupervisorPid"], signal.SIGKILL)
        first.stop()
        assert ended(third)[0]["TrainingJobStatus"] == "Completed"
        assert ended(second)[0]["TrainingJobStatus"] == "Failed"


class TestFolders:
    def test_checkpoints_are_kept_in_step(self, place: LocalPlace, tmp_path: Path) -> None:
        script = """
            import os, pathlib
            file = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "checkpoints", "step")
            print(file.read_text() if file.exists() else "none"); file.write_text("40")
        """
        uri = (tmp_path / "kept é").as_uri()
        outputs = [
            ended(submit(place.service, place.request(script, name=name, checkpoint_uri=uri)))[1] for name in ("a", "b")
        ]
        assert outputs == [["none"], ["40"]]
        assert (tmp_path / "kept é" / "step").read_text() == "40"

    def test_data_is_linked_and_the_source_copied(self, place: LocalPlace) -> None:
        data = place.folder("data", {"big": "x"})
        request = place.request("open('changed', 'w').close()", channels={"train": data})
        ended(submit(place.service, request))
        base = place.job_folder() / "opt" / "ml"
        assert (base / "input" / "data" / "train").is_symlink()
        assert (base / "code" / "changed").exists()
        assert sorted(path.name for path in (place.root / "source-0").iterdir()) == ["train.py"]

    def test_a_channel_of_one_file_is_a_folder_with_it(self, place: LocalPlace) -> None:
        file = place.folder("data", {"rows.jsonl": "{}"}) + "/rows.jsonl"
        script = "import os; print(os.listdir(os.environ['SM_CHANNEL_TRAIN']))"
        _, lines = ended(submit(place.service, place.request(script, channels={"train": file})))
        assert lines == ["['rows.jsonl']"]

    def test_a_packed_source(self, place: LocalPlace, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text("import helper")
        (tmp_path / "helper.py").write_text("print('packed')")
        with tarfile.open(tmp_path / "sourcedir.tar.gz", "w:gz") as tar:
            for name in ("train.py", "helper.py"):
                tar.add(tmp_path / name, arcname=name)
        request = place.request("pass")
        request["HyperParameters"]["sagemaker_submit_directory"] = json.dumps(str(tmp_path / "sourcedir.tar.gz"))
        assert ended(submit(place.service, request))[1] == ["packed"]

    @pytest.mark.parametrize(
        ("uri", "reason"),
        [
            ("/no/where", "source '/no/where' does not exist"),
            ("s3://bucket/sourcedir.tar.gz", "'s3://bucket/sourcedir.tar.gz' is no place on this machine"),
            ("relative", "'relative' is no place on this machine"),
        ],
    )
    def test_a_source_that_is_none(self, place: LocalPlace, uri: str, reason: str) -> None:
        request = place.request("pass")
        request["HyperParameters"]["sagemaker_submit_directory"] = json.dumps(uri)
        description, _ = ended(submit(place.service, request))
        assert description["FailureReason"].startswith("ClientError: ")
        assert reason in description["FailureReason"]

    def test_a_source_without_the_program(self, place: LocalPlace) -> None:
        request = place.request("pass")
        request["HyperParameters"]["sagemaker_submit_directory"] = json.dumps(place.folder("empty", {}))
        description, _ = ended(submit(place.service, request))
        assert description["FailureReason"].endswith("/empty-0' has no 'train.py'.")

    def test_the_environment_is_scrubbed(self, place: LocalPlace, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "MLFLOW_TRACKING_URI", "PYTHONPATH", "SM_MODEL_DIR"):
            monkeypatch.setenv(name, "secret")
        _, lines = ended(submit(place.service, place.request("import os; print(sorted(os.environ.items()))")))
        assert "secret" not in lines[0]
        assert "'PATH'" in lines[0]

    def test_a_request_is_read_by_its_owner_alone(self, place: LocalPlace) -> None:
        ended(submit(place.service, place.request("pass")))
        assert place.job_folder().stat().st_mode & 0o077 == 0


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"environment": {"TRAINFARE_CORES": "0"}}, "TRAINFARE_CORES is '0'; it must be a whole number from 1 to"),
            ({"environment": {"TRAINFARE_CORES": "99999"}}, "TRAINFARE_CORES is '99999'"),
            ({"environment": {"TRAINFARE_CORES": "two"}}, "TRAINFARE_CORES is 'two'"),
            ({"environment": {"TRAINFARE_MEMORY_GIB": "-1"}}, "TRAINFARE_MEMORY_GIB is '-1'; it must be a number"),
            ({"environment": {"TRAINFARE_STOP_GRACE_SECONDS": "nan"}}, "TRAINFARE_STOP_GRACE_SECONDS is 'nan'"),
            ({"compiler": "trcomp"}, "Compilers 'trcomp' and 'trcomp-off' exist in SageMaker's images alone"),
            ({"compiler": "trcomp-off"}, "choose the service 'sagemaker', or the compiler 'none' or 'inductor'"),
            ({"instance_count": 2}, "The local service is one machine; instance_count is 2"),
        ],
    )
    def test_nothing_is_created(self, place: LocalPlace, fields: dict, message: str) -> None:
        with pytest.raises(InputError, match=message.replace("(", r"\(")):
            place.service.create(place.request("pass", **fields))
        assert not place.job_folder().parent.exists()

    @pytest.mark.parametrize("name", ["../job", "a b", "", "-a", "a" * 64])
    def test_job_names(self, place: LocalPlace, name: str) -> None:
        with pytest.raises(InputError, match="Job name"):
            place.service.create(place.request("pass") | {"TrainingJobName": name})

    @pytest.mark.parametrize("program", ["", "-c", "../train.py", "/bin/sh", "train py"])
    def test_programs(self, place: LocalPlace, program: str) -> None:
        request = place.request("pass")
        request["HyperParameters"]["sagemaker_program"] = json.dumps(program)
        with pytest.raises(InputError, match="sagemaker_program"):
            place.service.create(request)

    def test_other_launchers(self, place: LocalPlace) -> None:
        request = place.request("pass")
        request["HyperParameters"]["sagemaker_mpi_enabled"] = "true"
        with pytest.raises(InputError, match="sagemaker_mpi_enabled asks for a launcher of SageMaker's images"):
            place.service.create(request)

    def test_cursors(self, place: LocalPlace) -> None:
        ended(submit(place.service, place.request("print(1)")))
        with pytest.raises(ServiceError, match="'-5' is no place in a log"):
            place.service.logs("job", "-5")
