"""Target, outcome, failure, folders, events, compilers and hardware: what needs no training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checkpoints.target import Target
from compilation import compilers
from data.padding import Work
from measuring import hardware, result_metrics
from measuring.meter import Steady
from processes import ranks
from reporting import failure
from reporting.errors import ArgumentError, BadData, Stopped, Unsupported
from reporting.events import EVENT_PREFIX, Events
from settings.folders import folders
from tests.support.job.job_process import JOB
from training.contract.events import EventReader, parse_line


@pytest.mark.parametrize(
    ("metric", "direction", "value", "values", "reached"),
    [
        ("eval_accuracy", None, 0.8, [0.7, 0.8, 0.9], 1),
        ("eval_loss", None, 0.5, [0.7, 0.4], 1),
        ("eval_loss", "max", 0.5, [0.4, 0.7], 1),
        ("eval_accuracy", "min", 0.8, [0.9, 0.85, 0.8], 2),
        ("loss", None, 0.5, [0.7, 0.6], None),
    ],
)
def test_target(metric: str, direction: str | None, value: float, values: list[float], reached: int | None) -> None:
    target = Target(metric, value, direction)
    for at, seen in enumerate(values):
        target.observe({metric: seen, "other": 9.0}, seconds=10.0 * at, samples=100 * at)
    expected = {"target/reached": 1, "target/seconds": 10.0 * (reached or 0), "target/samples": 100 * (reached or 0)}
    assert target.metrics() == ({"target/reached": 0} if reached is None else expected)


def test_throughput_by_hand() -> None:
    steady = Steady(10.0, Work(50, 400, 800), 5, (1.0, 2.0, 3.0))
    all_devices = Work(100, 800, 1600)
    # 6 FLOP x 1e9 parameters x 80 tokens/s = 4.8e11 of 4.8e12.
    assert result_metrics.throughput_metrics(steady, all_devices, 10**9, 4.8e12) == pytest.approx(
        {
            "throughput/steady_samples_per_second": 10.0,
            "throughput/steady_tokens_per_second": 80.0,
            "throughput/steady_steps": 5,
            "throughput/steady_step_seconds_p25": 1.0,
            "throughput/steady_step_seconds_p50": 2.0,
            "throughput/steady_step_seconds_p75": 3.0,
            "throughput/model_flops_per_second": 4.8e11,
            "throughput/mfu": 0.1,
        }
    )
    assert "throughput/mfu" not in result_metrics.throughput_metrics(steady, all_devices, 10**9, None)
    assert result_metrics.throughput_metrics(None, all_devices, 10**9, 1e12) == {}


def test_padding_efficiency() -> None:
    assert result_metrics.padding_metrics(Work(10, 30, 120)) == {"padding/efficiency": 0.25}
    assert result_metrics.padding_metrics(Work(0, 0, 0)) == {}


def real_allocation_failure() -> BaseException:
    try:
        torch.empty(2**55)
    except RuntimeError as error:
        return error
    raise AssertionError("32 PiB were allocated")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), "OutOfMemory"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), "OutOfMemory"),
        (RuntimeError("CUDA error: out of memory"), "OutOfMemory"),
        (RuntimeError("std::bad_alloc"), "OutOfMemory"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "OutOfMemory"),
        (RuntimeError("unable to mmap 90868376 bytes from file <x>: Cannot allocate memory (12)"), "OutOfMemory"),
        (real_allocation_failure(), "OutOfMemory"),
        (ValueError("ran out of memory cards"), "Error"),
        (BadData("x"), "BadData"),
        (Stopped(), "Stopped"),
        (KeyboardInterrupt(), "Stopped"),
        (ArgumentError("x"), "Error"),
    ],
)
def test_failure_class(error: BaseException, expected: str) -> None:
    assert failure.failure_class(error) == expected


def report(error: BaseException, folder: Path) -> tuple[int, dict[str, Any]]:
    read, write = os.pipe()
    code = failure.report(error, Events(descriptor=write), folder)
    os.close(write)
    with os.fdopen(read) as stream:
        [event] = EventReader().read(stream.read().split("\n"))
    return code, dict(event.fields)


def test_a_failure_is_told_twice(tmp_path: Path) -> None:
    code, event = report(BadData("x" * 2000 + "\nmore"), tmp_path / "output")
    assert code == 1
    assert (event["failure_class"], event["message"]) == ("BadData", "x" * 2000)
    text = (tmp_path / "output/failure").read_text()
    assert len(text) == 1024
    assert text.startswith("BadData: xxx")


def test_a_stopped_process_tells_why_another_failed(tmp_path: Path) -> None:
    assert report(Stopped("SIGTERM was received"), tmp_path)[1]["failure_class"] == "Stopped"
    assert not (tmp_path / "failure").exists()
    report(MemoryError("no room: at all"), tmp_path)
    code, event = report(Stopped(), tmp_path)
    assert (code, event["failure_class"], event["message"]) == (1, "OutOfMemory", "no room: at all")
    report(BadData("later"), tmp_path)
    assert (tmp_path / "failure").read_text() == "OutOfMemory: no room: at all"


def test_folders(tmp_path: Path) -> None:
    names = ("SM_MODEL_DIR", "SM_OUTPUT_DIR", "SM_OUTPUT_DATA_DIR", "SM_CHANNEL_TRAIN", "SM_CHANNEL_VALIDATION")
    environment = {name: f"/a/{name}" for name in names} | {"SAGEMAKER_BASE_DIR": str(tmp_path)}
    found = folders(environment)
    assert found.train == Path("/a/SM_CHANNEL_TRAIN")
    assert found.pretrained is None
    assert found.checkpoints is None
    (tmp_path / "checkpoints").mkdir()
    assert folders(environment).checkpoints == tmp_path / "checkpoints"
    assert folders(environment | {"SM_CHECKPOINT_DIR": "/c"}).checkpoints == Path("/c")
    with pytest.raises(ArgumentError, match="SM_CHANNEL_TRAIN is not set"):
        folders({name: value for name, value in environment.items() if name != "SM_CHANNEL_TRAIN"})


def test_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    read, write = os.pipe()
    events = Events(tmp_path, descriptor=write, clock=lambda: 12.5)
    events.emit("note", message="é\nnew line")
    events.emit("metric", step=1, values={"loss": np.float32(0.5), "n": np.int64(3)}, folder=Path("/x"))
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as stream:
        first, second = (parse_line(line) for line in stream.read().splitlines())
    assert first is not None
    assert (first.kind, first.seq, first.time, first.fields) == ("note", 0, 12.5, {"message": "é\nnew line"})
    assert second is not None
    assert second.fields == {"step": 1, "values": {"loss": 0.5, "n": 3}, "folder": "/x"}
    assert [json.loads(line)["seq"] for line in (tmp_path / "events.jsonl").read_text().splitlines()] == [0, 1]


def test_a_silent_process_writes_nothing(tmp_path: Path) -> None:
    Events(tmp_path, speaks=False, descriptor=-1).emit("note", message="x")
    assert list(tmp_path.iterdir()) == []


def test_lines_of_many_processes_stay_whole(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from reporting.events import Events; events = Events()\n"
        "for n in range(300): events.emit('note', message='x' * 300)"
    )
    with (tmp_path / "log").open("w") as log:
        running = [subprocess.Popen([sys.executable, "-c", code, str(JOB)], stdout=log) for _ in range(3)]
        assert [process.wait() for process in running] == [0, 0, 0]
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 900
    assert all(line.startswith(EVENT_PREFIX) and parse_line(line) for line in lines)


def test_repeated_layers(tiny_model: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(tiny_model)
    assert [type(layer).__name__ for layer in compilers.repeated_layers(model)] == ["BertLayer", "BertLayer"]
    assert compilers.repeated_layers(torch.nn.Linear(1, 1)) == []
    assert compilers.repeated_layers(torch.nn.ModuleList([torch.nn.Linear(1, 1)])) == []


def test_inductor_without_a_compiler_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compilers.Inductor().check()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(Unsupported, match=r"needs a C\+\+ compiler"):
        compilers.Inductor().check()


def test_precision() -> None:
    assert hardware.precision("bf16", "cpu") == "bf16"
    assert hardware.precision("auto", "cpu") in ("bf16", "fp32")
    assert hardware.precision("auto", "xla") == "fp16"
    with pytest.raises(Unsupported, match="fp16 needs a GPU"):
        hardware.precision("fp16", "cpu")


def test_peaks_take_the_longer_name() -> None:
    assert hardware.peak_flops_per_second("NVIDIA L40S") == 362e12
    assert hardware.peak_flops_per_second("NVIDIA L4") == 121e12
    assert hardware.peak_flops_per_second("NVIDIA A10G") == 70e12
    assert hardware.peak_flops_per_second("Another") is None


def test_the_age_of_a_process_counts_from_its_start() -> None:
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); from measuring import hardware; time.sleep(0.5); "
        "print(hardware.process_age_seconds())"
    )
    began = time.monotonic()
    output = subprocess.check_output([sys.executable, "-c", code, str(JOB)])
    assert 0.5 <= float(output) <= time.monotonic() - began + 0.1


def test_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ranks.RANK_VARIABLES, *ranks.COUNT_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    assert (ranks.rank(), ranks.count()) == (0, 1)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert (ranks.rank(), ranks.count()) == (3, 8)


def test_layers_that_share_their_weights_count_as_often_as_they_run() -> None:
    from transformers import AlbertConfig, AlbertForSequenceClassification

    sizes = {"vocab_size": 20, "embedding_size": 4, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
    once, thrice = (
        result_metrics.multiplied_parameters(
            AlbertForSequenceClassification(AlbertConfig(num_hidden_layers=n, **sizes))
        )
        for n in (1, 3)
    )
    # 4 x (8 x 8 + 8) of attention, 8 x 16 + 16 and 16 x 8 + 8 of the feed-forward part, two norms of 2 x 8.
    assert thrice - once == 2 * (4 * 72 + 144 + 136 + 32)
