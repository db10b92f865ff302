"""Test the warning about a disk that is about to be full, by hand and on a real small disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.services.small_disk import CAN_MOUNT, on_small_disk
from training.services.local.disk import DiskWatch, expected_files, missing_bytes, warning

MIB = 2**20
GIB = 2**30


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
    files = expected_files(request(tmp_path, save_model=True, save_strategy="epoch", save_total_limit=1))
    base = container(tmp_path)
    # Two checkpoints, the kept one and the next, of 3 MiB each; the model and its artifact.
    assert missing_bytes(files, base) == (2 * 3 + 2) * MIB
    (base / "checkpoints" / "optimizer.pt").write_bytes(bytes(MIB))
    (base / "model" / "model.safetensors").write_bytes(bytes(MIB))
    assert missing_bytes(files, base) == 6 * MIB


def test_a_job_that_saves_nothing_needs_no_space(tmp_path: Path) -> None:
    files = expected_files(request(tmp_path, save_model=False, save_strategy="none"))
    assert missing_bytes(files, container(tmp_path)) == 0


def test_the_model_of_a_script_counts_once_it_is_saved(tmp_path: Path) -> None:
    files = expected_files({"HyperParameters": {}})
    base = container(tmp_path)
    assert missing_bytes(files, base) == 0
    (base / "model" / "weights.bin").write_bytes(bytes(2 * MIB))
    assert missing_bytes(files, base) == 2 * MIB  # its artifact


def test_the_warning_states_the_space_and_what_to_do() -> None:
    assert warning(Path("/x"), 8 * GIB, 100 * GIB, 7 * GIB) == ""
    text = warning(Path("/x"), 6 * GIB, 100 * GIB, 7 * GIB)
    assert text.startswith("the disk of /x is almost full: 6 GiB of 100 GiB are free, and the job has yet to write")
    assert "about 7 GiB" in text
    assert "`trainfare jobs prune`" in text
    assert warning(Path("/x"), 255 * MIB, 100 * GIB, 0) != ""


def test_a_warning_begins_and_ends_once(tmp_path: Path) -> None:
    files = request(tmp_path, save_model=True)
    base, warnings, now = container(tmp_path), list[str](), [0.0]
    with (tmp_path / "staged" / "huge.bin").open("wb") as file:
        file.truncate(2**43)  # a sparse file of 8 TiB
    watch = DiskWatch(base, files, warnings.append, clock=lambda: now[0])
    for _ in range(3):
        watch.look()
        now[0] += 10
    assert len(warnings) == 1
    assert "almost full" in warnings[0]


@pytest.mark.skipif(not CAN_MOUNT, reason="only root can mount a small file system")
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
