"""Copies of events and logs: complete on disk, and bounded in memory."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path

import pytest
from mlflow import MlflowClient

from benchmarks.support.peak_memory import run_measured
from tracking.recording.job_copies import TAIL_CHARACTERS, TAIL_LINES, EventCopy, LogCopy
from training.contract.events import Event


def event(seq: int, kind: str = "metric", **fields: object) -> Event:
    return Event(kind=kind, seq=seq, time=1_700_000_000.25 + seq, fields=fields)


def test_events_come_back_as_they_were_while_others_read_and_write() -> None:
    events = [event(0, "start", device={"count": 2}), event(1, values={"loss": 0.1 + 0.2, "é": 1}), event(2, "note")]
    copy = EventCopy()
    assert copy.last("note") is None
    copy.append(events[:2])
    first = iter(copy)
    assert next(first) == events[0]
    copy.append(events[2:])
    assert list(copy) == events
    assert list(first) == events[1:]
    copy.append([event(3, "note", message="two\nlines", values={"loss": math.nan, "low": -math.inf})])
    assert copy.last("note") is not events[2]
    assert math.isnan(list(copy)[-1].fields["values"]["loss"])
    with copy.as_file("events.jsonl") as path:
        lines = path.read_text("utf-8").splitlines()
    assert path.name == "events.jsonl"
    assert json.loads(lines[2]) == {"event": "note", "seq": 2, "time": 1_700_000_002.25}
    assert len(lines) == 4


def test_a_copy_has_all_lines() -> None:
    log = LogCopy()
    log.append(["one", "", "zwei ü\r"])
    log.append(["x" * 3_000_000])
    log.append([])
    with log.as_file("log.txt") as path:
        assert path.name == "log.txt"
        assert path.read_bytes().decode() == "one\n\nzwei ü\r\n" + "x" * 3_000_000 + "\n"
    assert not path.exists()
    log.append(["later"])
    with log.as_file("log.txt") as path:
        assert path.read_bytes().endswith(b"x\nlater\n")


def test_the_tail_is_bounded() -> None:
    log = LogCopy()
    assert log.tail(20) == []
    log.append([f"{number} " + "x" * TAIL_CHARACTERS for number in range(TAIL_LINES + 5)])
    assert len(log.tail()) == TAIL_LINES
    assert [line.split()[0] for line in log.tail(2)] == ["1003", "1004"]
    assert {len(line) for line in log.tail()} == {TAIL_CHARACTERS}


MAX_GROWTH_MIB = 100.0
SCRIPT = """\
import sys
kind, mib = sys.argv[2], int(sys.argv[4])
for number in range(mib):
    line = f"{number:06} some words in a line of this log, which is not a metric\\n"
    sys.stdout.write(line * 16_384 if kind == "lines" else "x" * 2**20)
print("\\nloss=0.5")
"""
EXPERIMENT = """\
script:
  source: code
  entry_point: print.py
  hyperparameters: {{kind: {kind}, mib: {mib}}}
  channels: {{train: code/print.py}}
  metrics: {{loss: 'loss=([0-9.]+)$'}}
machine: {{cores: 1}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lines", "endless line"])
def test_memory_does_not_grow_with_the_log(tmp_path: Path, kind: str) -> None:
    launcher, supervisor = peaks_mib(tmp_path / "short", kind, 0)
    long_launcher, long_supervisor = peaks_mib(tmp_path / "long", kind, 150)
    assert long_launcher - launcher < MAX_GROWTH_MIB
    assert long_supervisor - supervisor < MAX_GROWTH_MIB


def peaks_mib(folder: Path, kind: str, mib: int) -> tuple[float, float]:
    """Run a job that prints `mib` MiB, and return the peak memory in MiB of its launcher and of its supervisor."""
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "print.py").write_text(SCRIPT)
    (folder / "experiment.yaml").write_text(EXPERIMENT.format(kind=kind, mib=mib))
    uri, ended, peaks = f"sqlite:///{folder}/mlflow.db", threading.Event(), [0.0]
    sampler = threading.Thread(target=_sample_supervisor, args=(str(folder), ended, peaks))
    sampler.start()
    try:
        environment = {"TRAINFARE_HOME": str(folder / "home"), "MLFLOW_TRACKING_URI": uri, "HF_HUB_OFFLINE": "1"}
        command = ["train", "--experiment", str(folder / "experiment.yaml")]
        launcher = run_measured("experiments", command, environment).peak_mib
    finally:
        ended.set()
        sampler.join()
    client = MlflowClient(uri)
    ids = [each.experiment_id for each in client.search_experiments()]
    [run] = client.search_runs(ids, "tags.\"platform.kind\" = 'job'")
    assert run.data.metrics["loss"] == 0.5
    [size] = [each.file_size for each in client.list_artifacts(run.info.run_id) if each.path == "log.txt"]
    assert (size or 0) >= 0.9 * mib * 2**20
    return launcher, peaks[0]


def _sample_supervisor(folder: str, ended: threading.Event, peaks: list[float]) -> None:
    while not ended.wait(0.05):
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_text()
                if "training.services.local.supervisor" in command and folder in command:
                    lines = (process / "status").read_text().splitlines()
                    peaks[0] = max(peaks[0], *(int(each.split()[1]) / 1024 for each in lines if "VmHWM" in each))
            except (OSError, ValueError, TypeError):
                continue  # the process ended meanwhile
