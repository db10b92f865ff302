"""Contract of every service, tested with real jobs of a few lines of Python."""

from __future__ import annotations

import io
import json
import tarfile
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.services import following
from tests.support.services.following import (
    EMITS_EVENTS,
    RUNS_UNTIL_STOPPED,
    ended,
    event_numbers,
    running,
    statuses,
)
from tests.support.services.harness import SERVICES, Harness, harness_of
from training.contract.errors import ArtifactError, InputError, JobExists, JobNotFound
from training.contract.failures import Failure, failure_of, service_failure
from training.services.launcher import Job, submit
from training.services.sagemaker.storage import check_channels

LIMIT_SECONDS = {"local": 6, "sagemaker": 40, "slurm": 6}
"""Time limit of a job, in which a container starts on a busy machine."""


@pytest.fixture(params=SERVICES)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    return harness_of(request, tmp_path)


class TestInputs:
    def test_arguments_channels_and_variables_arrive_unchanged(self, harness: Harness) -> None:
        values = {"--looks_like": "no", "flag": True, "rate": 3e-05, "n": -1, "option": "--help"}
        # The toolkit's shell on SageMaker changes these. Our entry point carries them there.
        shell = {"empty": "", "name": 'it\'s "quoted" é $HOME `x`'} if harness.service.name != "sagemaker" else {}
        script = """
            import json, os, pathlib, sys
            texts = {c: pathlib.Path(os.environ["SM_CHANNEL_" + c.upper()], "däta 1.txt").read_text("utf-8")
                     for c in json.loads(os.environ["SM_CHANNELS"])}
            print(json.dumps([sys.argv, texts, os.environ["GREETING"]]))
        """
        channels = {name: harness.folder("data", {"däta 1.txt": f"{name} ü"}) for name in ("train", "test")}
        environment = {"GREETING": "it's “me” \n=1"}
        fields = {"hyperparameters": {**values, **shell}, "channels": channels, "environment": environment}
        _, lines = ended(submit(harness.service, harness.request(script, **fields)))
        words = [word for name in ("empty", "name") if name in shell for word in (f"--{name}", shell[name])]
        arguments = [
            *("train.py", "----looks_like", "no", *words[:2], "--flag", "True", "-n", "-1"),
            *(*words[2:], "--option", "--help", "--rate", "3e-05"),
        ]
        assert json.loads(lines[0]) == [arguments, {"train": "train ü", "test": "test ü"}, environment["GREETING"]]


class TestOutcomes:
    def test_a_completed_job_has_its_metrics_statuses_and_files(self, harness: Harness) -> None:
        script = """
            import os, pathlib
            folder = pathlib.Path(os.environ["SM_MODEL_DIR"], "sub folder"); folder.mkdir()
            (folder / "gewichte ü").write_bytes(bytes(range(256)) * 1000)
            pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "events.jsonl").write_bytes(b"\\x00{}")
            print("{'loss': 0.75}"); print("{'loss': 0.5}")
        """
        request = harness.request(script)
        job = submit(harness.service, request)
        description, lines = ended(job)
        assert lines == ["{'loss': 0.75}", "{'loss': 0.5}"]
        assert description["TrainingJobStatus"] == description["SecondaryStatus"] == "Completed"
        assert statuses(description) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
        assert description["HyperParameters"] == request["HyperParameters"]
        assert description["Environment"] == request["Environment"]
        assert "FailureReason" not in description
        uri = description["ModelArtifacts"]["S3ModelArtifacts"]
        assert uri.endswith(f"/{job.name}/output/model.tar.gz")
        with tarfile.open(fileobj=io.BytesIO(harness.read(uri)), mode="r:gz") as tar:
            assert tar.extractfile("sub folder/gewichte ü").read() == bytes(range(256)) * 1000
        with harness.again().open_model(uri) as stream, tarfile.open(fileobj=stream, mode="r|*") as tar:
            assert [member.size for member in tar if member.isfile()] == [256_000]
        with pytest.raises(ArtifactError), harness.service.open_model(f"{uri}.gone"):
            pass
        assert harness.service.fetch_output(job.name, "events.jsonl") == b"\x00{}"
        assert harness.service.fetch_output(job.name, "nothing") is None
        assert harness.service.fetch_output(job.name, "../../../request.json") is None
        job.stop()  # a job that has ended
        assert job.describe() == description

    def test_times_are_those_of_the_transitions(self, harness: Harness) -> None:
        description, _ = ended(submit(harness.service, harness.request("import time; time.sleep(1.2)")))
        transitions = description["SecondaryStatusTransitions"]
        for earlier, later in pairwise(transitions):
            assert earlier["StartTime"] <= earlier["EndTime"] == later["StartTime"]
        times = {each["Status"]: each["StartTime"] for each in transitions}
        assert description["TrainingStartTime"] == times["Downloading"]
        assert description["TrainingEndTime"] == times["Completed"]
        assert "ModelArtifacts" not in description
        seconds = (times["Completed"] - times["Downloading"]).total_seconds()
        assert seconds >= 1.2
        assert description["BillableTimeInSeconds"] == description["TrainingTimeInSeconds"] == round(seconds)
        if harness.service.name != "sagemaker":
            assert description["BillableSecondsExact"] == pytest.approx(seconds, abs=1e-3)

    def test_a_failed_job_reports_its_error(self, harness: Harness) -> None:
        description, lines = ended(
            submit(harness.service, harness.request("print('so far'); raise ValueError('no é')"))
        )
        assert (description["TrainingJobStatus"], description["SecondaryStatus"]) == ("Failed", "Failed")
        assert statuses(description) == ["Starting", "Downloading", "Training", "Failed"]
        reason = description["FailureReason"]
        assert reason.startswith("AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage ")
        # SageMaker's toolkit prints each piece that Python writes as a line.
        assert "ValueError:noé" in "".join(reason.split())
        assert service_failure(description).message == "ValueError: no é"
        assert lines[0] == "so far"
        assert description["BillableTimeInSeconds"] >= 0
        failure = failure_of(description, [], lines)
        assert (failure.failure_class, failure.message) == ("Error", "ValueError: no é")

    def test_the_failure_file_is_the_reason_and_is_shortened(self, harness: Harness) -> None:
        script = """
            import os, pathlib, sys
            pathlib.Path(os.environ["SM_OUTPUT_DIR"], "failure").write_text("begin " + "x" * 5000 + " end")
            sys.exit(7)
        """
        description, _ = ended(submit(harness.service, harness.request(script)))
        reason = description["FailureReason"]
        assert len(reason) == 1024
        assert reason.startswith('AlgorithmError: ExecuteUserScriptError:\nExitCode 7\nErrorMessage "begin xxx')
        assert reason.endswith('x end"')

    def test_a_job_killed_by_a_signal_reports_it(self, harness: Harness) -> None:
        script = "import os, signal; print('alive'); os.kill(os.getpid(), signal.SIGKILL)"
        description, lines = ended(submit(harness.service, harness.request(script)))
        assert description["TrainingJobStatus"] == "Failed"
        assert "Killed by SIGKILL" in description["FailureReason"]
        assert failure_of(description, [], lines).failure_class == "Killed"
        assert lines == ["alive"]

    def test_a_job_that_exceeds_its_time_limit_is_stopped(self, harness: Harness) -> None:
        limit = LIMIT_SECONDS[harness.service.name]
        description, lines = ended(submit(harness.service, harness.request(RUNS_UNTIL_STOPPED, max_run_seconds=limit)))
        assert (description["TrainingJobStatus"], description["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
        assert lines == ["running"]
        assert failure_of(description, [], lines) == Failure(
            "TimeLimit",
            f"it ran longer than its limit of {limit} seconds",
        )
        assert not harness.has_processes("job")

    def test_a_missing_channel_fails_the_job(self, harness: Harness, tmp_path: Path) -> None:
        if harness.service.name == "sagemaker":
            with pytest.raises(InputError, match="contains no file"):  # before the upload
                check_channels({"train": (tmp_path / "nothing").as_uri()})
            return
        missing = harness.folder("data", {}) + "/nowhere"
        description, lines = ended(submit(harness.service, harness.request("print(1)", channels={"train": missing})))
        assert statuses(description) == ["Starting", "Downloading", "Failed"]
        assert description["FailureReason"].startswith("ClientError: ")
        assert "/nowhere" in description["FailureReason"]
        assert failure_of(description, [], lines).failure_class == "BadData"
        assert lines == []


class TestStopping:
    def test_a_stopped_job_keeps_its_saved_model(self, harness: Harness) -> None:
        script = """
            import os, pathlib, signal, sys, time
            def leave(*_):
                pathlib.Path(os.environ["SM_MODEL_DIR"], "weights").write_text("w")
                print("stopping", flush=True); sys.exit(0)
            signal.signal(signal.SIGTERM, leave)
            print("running", flush=True)
            time.sleep(300)
        """
        patient = {"TRAINFARE_STOP_GRACE_SECONDS": "60"}
        job = submit(harness.service, harness.request(script, environment=patient))
        running(job)
        job.stop()
        description, lines = ended(job)
        assert lines == ["running", "stopping"]
        assert (description["TrainingJobStatus"], description["SecondaryStatus"]) == ("Stopped", "Stopped")
        assert statuses(description) == ["Starting", "Downloading", "Training", "Stopping", "Uploading", "Stopped"]
        assert description["ModelArtifacts"]["S3ModelArtifacts"]
        assert failure_of(description, [], lines) == Failure("Stopped", "it was stopped")

    def test_a_job_that_ignores_sigterm_is_killed_with_its_children(self, harness: Harness) -> None:
        script = """
            import signal, subprocess, sys, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
            print("running", flush=True)
            time.sleep(300)
        """
        job = submit(harness.service, harness.request(script))
        running(job)
        job.stop()
        description, _ = ended(job)
        assert description["TrainingJobStatus"] == "Stopped"
        assert not harness.has_processes("job")

    def test_children_do_not_outlive_a_completed_job(self, harness: Harness) -> None:
        # On SageMaker, a child that keeps the output open keeps the job running: the toolkit reads until it is closed.
        script = """
            import subprocess, sys
            child = [sys.executable, "-c", "import time; time.sleep(300)"]
            subprocess.Popen(child, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        """
        description, _ = ended(submit(harness.service, harness.request(script)))
        assert description["TrainingJobStatus"] == "Completed"
        assert not harness.has_processes("job")


class TestNames:
    def test_a_second_job_of_a_name_attaches_to_the_first(self, harness: Harness) -> None:
        job = submit(harness.service, harness.request("print('first')"))
        first, lines = ended(job)
        second = harness.request("print('second')")
        with pytest.raises(JobExists, match=f"Job {job.name} already exists"):
            harness.service.create(second)
        attached, attached_lines = ended(submit(harness.service, second))
        assert (attached, attached_lines) == (first, lines) == (first, ["first"])

    @pytest.mark.parametrize("name", ["unknown", "..", "a/b", ""])
    def test_an_unknown_job_is_an_error(self, harness: Harness, name: str) -> None:
        calls = [harness.service.describe, harness.service.stop]
        # CloudWatch stores lines, not jobs: a job without lines looks like one that does not exist.
        if harness.service.name != "sagemaker" or name != "unknown":
            calls += [harness.service.logs, harness.service.log_location]
        for call in calls:
            with pytest.raises(JobNotFound):
                call(name)

    def test_jobs_are_listed_newest_first(self, harness: Harness) -> None:
        if harness.is_remote:
            pytest.skip("needs an account without other jobs")
        assert harness.service.jobs() == []
        for name in ("a", "c", "b"):
            ended(submit(harness.service, harness.request("pass", name=name)))
        job = submit(harness.service, harness.request(RUNS_UNTIL_STOPPED, name="d"))
        running(job)
        assert [each["TrainingJobName"] for each in harness.again().jobs()] == ["d", "b", "c", "a"]
        assert [each["TrainingJobName"] for each in harness.again().jobs(running_only=True)] == ["d"]
        job.stop()
        ended(job)


class TestFollowing:
    def test_every_follower_gets_every_event_once_and_in_order(self, harness: Harness) -> None:
        job = submit(harness.service, harness.request(EMITS_EVENTS))
        assert event_numbers(job) == event_numbers(Job(harness.again(), job.name)) == list(range(20))

    def test_pages_contain_only_complete_lines(self, harness: Harness, tmp_path: Path) -> None:
        """On SageMaker, the toolkit makes a line of the half that it reads first."""
        if harness.is_remote:
            pytest.skip("needs a job that can read this machine's files")
        script = r"""
            import pathlib, sys, time
            sys.stdout.write("whole\nhal"); sys.stdout.flush()
            while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.01)
            sys.stdout.buffer.write(b"f\n\xff\xfe broken\n\nlast"); sys.stdout.flush()
        """
        go = tmp_path / "go"
        job = submit(harness.service, harness.request(script, hyperparameters={"go": str(go)}))
        running(job, "whole")
        page = harness.service.logs(job.name)
        is_local = harness.service.name != "sagemaker"
        assert following.of_job(page.lines) == (["whole"] if is_local else ["whole", "hal"])
        assert harness.service.logs(job.name, page.cursor).lines == []
        go.touch()
        ended(job)
        rest = harness.service.logs(job.name, page.cursor)
        # CloudWatch stores no empty messages.
        end, empty = ("half", "") if is_local else ("f", " ")
        assert rest.lines == [end, "\ufffd\ufffd broken", empty, "last"]
        assert harness.service.logs(job.name, rest.cursor).lines == []
        assert harness.service.logs(job.name, page.cursor) == rest
