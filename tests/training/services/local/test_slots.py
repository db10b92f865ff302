"""Assignment of cores and GPUs to jobs, and the order of the queue."""

from __future__ import annotations

import os
import signal
import time

import pytest

from state.home import slots_folder
from tests.conftest import CORES as EVERY_CORE
from tests.support.services.following import RUNS_UNTIL_STOPPED, ended, running, statuses, supervisor_pid, until
from tests.support.services.harness import LocalHarness
from training.services.launcher import submit

pytestmark = pytest.mark.usefixtures("every_core")
CORES = len(EVERY_CORE)


class TestSlots:
    @pytest.mark.parametrize("kind", ["cores", "GPUs"])
    def test_two_jobs_with_one_device_each_get_different_ones(self, harness: LocalHarness, kind: str) -> None:
        if kind == "cores" and CORES < 2:
            pytest.skip("needs two cores")
        shown = {
            "cores": "sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'], os.environ['SM_NUM_CPUS']",
            "GPUs": "os.environ['CUDA_VISIBLE_DEVICES'], os.environ['SM_NUM_GPUS']",
        }
        script = f"""
            import os, pathlib, sys, time
            pathlib.Path(sys.argv[2]).touch()
            while not pathlib.Path(sys.argv[4]).exists(): time.sleep(0.01)
            print({shown[kind]})
        """
        paths, jobs = [str(harness.root / name) for name in "ab"], []
        for name, here, other in (("first", *paths), ("second", *reversed(paths))):
            # Each job waits for the other, so they end only if they run at the same time.
            request = harness.request(script, name=name, hyperparameters={"a-here": here, "b-other": other})
            if kind == "GPUs":  # The slots use only the names of the GPUs, so the GPUs need not exist.
                request["Environment"]["CUDA_VISIBLE_DEVICES"] = "0, GPU-1/x"
                del request["Environment"]["TRAINFARE_CORES"]
            jobs.append(submit(harness.service, request))
        (one,), (two,) = (ended(job)[1] for job in jobs)
        if kind == "GPUs":
            assert {one, two} == {"0 1", "GPU-1/x 1"}
        else:
            assert one != two
            assert [line.split("] ")[1] for line in (one, two)] == ["1 1", "1 1"]

    def test_a_job_with_more_devices_than_the_machine_fails(self, harness: LocalHarness) -> None:
        request = harness.request("pass", devices=3, environment={"CUDA_VISIBLE_DEVICES": "0,1"})
        description, _ = ended(submit(harness.service, request))
        assert description["FailureReason"] == "ClientError: The job requires 3 devices, but this machine has 2."

    def test_jobs_wait_in_order_and_waiting_is_not_billed(self, harness: LocalHarness) -> None:
        everything = {"environment": {"TRAINFARE_CORES": str(CORES)}}
        first = submit(harness.service, harness.request(RUNS_UNTIL_STOPPED, name="first", **everything))
        running(first)
        later = []
        for name, cores in (("second", CORES), ("third", 1), ("fourth", CORES)):
            environment = {"TRAINFARE_CORES": str(cores)}
            later.append(submit(harness.service, harness.request("pass", name=name, environment=environment)))
            until(lambda: later[-1].describe()["SecondaryStatus"] == "Pending")
            assert "TrainingStartTime" not in later[-1].describe()
        time.sleep(0.5)
        first.stop()
        descriptions = [ended(job)[0] for job in later]
        assert [each["TrainingJobStatus"] for each in descriptions] == ["Completed"] * 3
        starts = [each["TrainingStartTime"] for each in descriptions]
        assert starts == sorted(starts)
        for each in descriptions:
            waiting_seconds = (each["TrainingStartTime"] - each["CreationTime"]).total_seconds()
            running_seconds = (each["TrainingEndTime"] - each["TrainingStartTime"]).total_seconds()
            assert waiting_seconds >= 0.5
            assert each["BillableSecondsExact"] == pytest.approx(running_seconds, abs=1e-3)

    def test_a_waiting_job_can_be_stopped_and_leaves_the_queue(self, harness: LocalHarness) -> None:
        everything = {"environment": {"TRAINFARE_CORES": str(CORES)}}
        first = submit(harness.service, harness.request(RUNS_UNTIL_STOPPED, name="first", **everything))
        running(first)
        second = submit(harness.service, harness.request("pass", name="second", **everything))
        until(lambda: second.describe()["SecondaryStatus"] == "Pending")
        second.stop()
        description, _ = ended(second)
        assert description["TrainingJobStatus"] == "Stopped"
        assert statuses(description) == ["Starting", "Stopped"]
        assert "BillableTimeInSeconds" not in description
        assert list((slots_folder() / "queue").iterdir()) == []

    def test_a_waiting_job_that_is_killed_does_not_hold_up_the_queue(self, harness: LocalHarness) -> None:
        everything = {"environment": {"TRAINFARE_CORES": str(CORES)}}
        first = submit(harness.service, harness.request(RUNS_UNTIL_STOPPED, name="first", **everything))
        running(first)
        second = submit(harness.service, harness.request("pass", name="second", **everything))
        until(lambda: second.describe()["SecondaryStatus"] == "Pending")
        third = submit(harness.service, harness.request("pass", name="third", **everything))
        until(lambda: third.describe()["SecondaryStatus"] == "Pending")
        os.kill(supervisor_pid(harness, "second"), signal.SIGKILL)
        first.stop()
        assert ended(third)[0]["TrainingJobStatus"] == "Completed"
        assert ended(second)[0]["TrainingJobStatus"] == "Failed"
