"""Jobs on a full disk, on a real small file system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.services.small_disk import CAN_MOUNT, on_small_disk
from training.contract.failures import failure_of

needs_mount = pytest.mark.skipif(not CAN_MOUNT, reason="only root can mount a small file system")

RUN = """
request = harness.request(SCRIPT)
description, lines = ended(submit(harness.service, request))
until_unsupervised(harness.root)
assert not list(harness.job_folder().glob("*spare*"))
print(json.dumps([description, lines, (harness.job_folder() / "supervisor.txt").read_text()], default=str))
"""
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


def outcome(tmp_path: Path, script: str) -> tuple[dict[str, Any], list[str]]:
    """Return the description and the log of a job that runs the script."""
    description, lines, errors = json.loads(on_small_disk(tmp_path, f"SCRIPT = {script!r}" + RUN))
    assert errors == ""
    return description, lines


@needs_mount
def test_a_script_that_fills_the_disk_fails_with_the_reason(tmp_path: Path) -> None:
    script = FILLS.format(then='print("lost", flush=True); open("more", "w").write("x" * 9000)')
    description, _ = outcome(tmp_path, script)
    assert (description["TrainingJobStatus"], description["SecondaryStatus"]) == ("Failed", "Failed")
    assert 'ExtraInfo "DiskFull: the disk of ' in description["FailureReason"]
    assert "of 8 MiB are free. Free some space, for example with `trainfare jobs prune`" in description["FailureReason"]
    assert failure_of(description, [], []).failure_class == "DiskFull"
    assert description["BillableSecondsExact"] > 0
