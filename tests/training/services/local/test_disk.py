"""Jobs on a full disk, and the warning before: by hand, and on a real small file system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.services.small_disk import CAN_MOUNT, on_small_disk
from training.contract.failures import failure_of
from training.services.local.disk import missing_bytes, warning

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
MIB = 2**20
GIB = 2**30


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


def request(folder: Path, **hyperparameters: Any) -> dict[str, Any]:
    """Return the part of a request that the watch reads, with a model channel of 1 MiB."""
    (folder / "staged").mkdir()
    (folder / "staged" / "model.safetensors").write_bytes(bytes(MIB))
    channel = {"ChannelName": "model", "DataSource": {"S3DataSource": {"S3Uri": (folder / "staged").as_uri()}}}
    texts = {name: json.dumps(value) for name, value in hyperparameters.items()}
    return {"HyperParameters": texts, "InputDataConfig": [channel]}


def container(folder: Path) -> Path:
    base = folder / "job" / "opt" / "ml"
    for name in ("model", "checkpoints"):
        (base / name).mkdir(parents=True)
    return base


def test_the_model_counts_twice_and_a_checkpoint_three_times(tmp_path: Path) -> None:
    job = request(tmp_path, save_model=True, save_strategy="epoch", save_total_limit=1)
    base = container(tmp_path)
    # Two checkpoints, the kept one and the next, of 3 MiB each; the model and its artifact.
    assert missing_bytes(job, base) == (2 * 3 + 2) * MIB
    (base / "checkpoints" / "optimizer.pt").write_bytes(bytes(MIB))
    (base / "model" / "model.safetensors").write_bytes(bytes(MIB))
    assert missing_bytes(job, base) == 6 * MIB


def test_the_model_of_a_script_counts_once_it_is_saved(tmp_path: Path) -> None:
    base = container(tmp_path)
    nothing = request(tmp_path, save_model=False, save_strategy="none")
    script: Any = {"HyperParameters": {}}
    assert missing_bytes(nothing, base) == missing_bytes(script, base) == 0
    (base / "model" / "weights.bin").write_bytes(bytes(2 * MIB))
    assert missing_bytes(script, base) == 2 * MIB  # its artifact


def test_the_warning_states_the_space_and_what_to_do() -> None:
    assert warning(Path("/x"), 8 * GIB, 100 * GIB, 7 * GIB) == ""
    text = warning(Path("/x"), 6 * GIB, 100 * GIB, 7 * GIB)
    assert text.startswith("the disk of /x is almost full: 6 GiB of 100 GiB are free, and the job has yet to write")
    assert "about 7 GiB" in text
    assert "`trainfare jobs prune`" in text
    assert warning(Path("/x"), 255 * MIB, 100 * GIB, 0) != ""


@needs_mount
def test_a_job_on_a_small_disk_warns_before_its_model_is_lost(tmp_path: Path) -> None:
    """The script saves 5 MiB on a disk of 8 MiB, and trains on. Its artifact would not fit."""
    body = """
    from tests.support.services.following import running, until
    script = '''
    import time
    open("../model/weights.bin", "wb").write(bytes(5 * 2**20))
    print("running", flush=True)
    time.sleep(300)
    '''
    job = submit(harness.service, harness.request(script))
    running(job)
    until(lambda: bool(job.describe().get("DiskWarning")))
    print(job.describe()["TrainingJobStatus"], job.describe()["DiskWarning"])
    job.stop()
    ended(job)
    """
    printed = on_small_disk(tmp_path, body)
    assert printed.startswith("InProgress the disk of ")
    assert "and the job has yet to write about 5 MiB" in printed
    assert "`trainfare jobs prune`" in printed
