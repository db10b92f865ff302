"""Jobs on a full disk: a real small file system, in a mount namespace of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.services.small_disk import CAN_MOUNT, on_small_disk
from training.contract.failures import failure_of

pytestmark = pytest.mark.skipif(not CAN_MOUNT, reason="only root can mount a small file system")

RUN = """
request = harness.request(SCRIPT)
description, lines = ended(submit(harness.service, request))
until_unsupervised(harness.root)
assert not list(harness.job_folder().glob("*spare*"))
print(json.dumps([description, lines, (harness.job_folder() / "supervisor.txt").read_text()], default=str))
"""


def outcome(tmp_path: Path, script: str) -> tuple[dict[str, Any], list[str]]:
    """Return the description and the log of a job that runs the script."""
    description, lines, errors = json.loads(on_small_disk(tmp_path, f"SCRIPT = {script!r}" + RUN))
    assert errors == ""
    return description, lines


FILLS = """
    import os
    file = os.open("../model/weights", os.O_CREAT | os.O_WRONLY)
    try:
        while True:
            os.write(file, b"x" * 4096)
    except OSError:
        pass
    {then}
"""


def test_a_script_that_fills_the_disk_fails_with_the_reason(tmp_path: Path) -> None:
    script = FILLS.format(then='print("lost", flush=True); open("more", "w").write("x" * 9000)')
    description, _ = outcome(tmp_path, script)
    assert (description["TrainingJobStatus"], description["SecondaryStatus"]) == ("Failed", "Failed")
    assert 'ExtraInfo "DiskFull: the disk of ' in description["FailureReason"]
    assert "of 8 MiB are free. Free some space, for example with `trainfare jobs prune`" in description["FailureReason"]
    assert failure_of(description, [], [])[0] == "DiskFull"
    assert description["BillableSecondsExact"] > 0


def test_a_model_that_cannot_be_packed_fails_the_job_with_its_size(tmp_path: Path) -> None:
    description, _ = outcome(tmp_path, 'open("../model/weights", "wb").write(bytes(5 * 2**20))')
    assert description["TrainingJobStatus"] == "Failed"
    assert "of 8 MiB are free, and 5 MiB are needed." in description["FailureReason"]
    assert failure_of(description, [], [])[0] == "DiskFull"


def test_a_job_that_completes_on_a_full_disk_is_recorded(tmp_path: Path) -> None:
    script = FILLS.format(then='os.rename("../model/weights", "../output/data/weights")')
    description, _ = outcome(tmp_path, script)
    assert description["TrainingJobStatus"] == "Completed"


def test_a_job_that_cannot_be_created_is_one_sentence(tmp_path: Path) -> None:
    body = """
    request = harness.request("print(1)")
    fill(Path({folder}) / "full")
    try:
        harness.service.create(request)
    except ServiceError as error:
        print(error)
    print(sorted(path.name for path in (harness.root / "jobs").glob("*")))
    """
    printed = on_small_disk(tmp_path, body.replace("{folder}", repr(str(tmp_path / "disk")))).splitlines()
    assert printed[0].startswith("Job job could not be started: DiskFull: the disk of ")
    assert "0 bytes of 8 MiB are free" in printed[0]
    assert printed[1:] == ["[]"]
