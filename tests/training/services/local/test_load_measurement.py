"""The load of others beside a script: from the supervisor's measurement to the job's description."""

from __future__ import annotations

import subprocess
import sys

from judging.disturbance import disturbances
from tests.support.services.following import ended
from tests.support.services.harness import LocalHarness
from training.services.launcher import submit
from training.services.local.supervisor import FIELD, MEASURE_VARIABLE

SCRIPT = "import time; time.sleep(6)"


def test_a_busy_process_beside_a_script_is_in_its_description(harness: LocalHarness) -> None:
    request = harness.request(SCRIPT)
    request["Environment"] = {**request.get("Environment", {}), MEASURE_VARIABLE: "1"}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) as neighbour:
        job = submit(harness.service, request)
        description, _ = ended(job)
        neighbour.kill()
    load = description[FIELD]
    # The job sleeps, so others have at least what the neighbour takes, however many others there are.
    reasons = disturbances(lambda name: load.get(name, 0.0)) or []
    assert any("other processes used" in reason for reason in reasons)


def test_a_failed_script_has_its_load_too(harness: LocalHarness) -> None:
    request = harness.request("import time; time.sleep(0.3); raise ValueError('no')")
    request["Environment"] = {**request.get("Environment", {}), MEASURE_VARIABLE: "1"}
    description, _ = ended(submit(harness.service, request))
    assert description["TrainingJobStatus"] == "Failed"
    assert "machine/others_cpus" in description[FIELD]
