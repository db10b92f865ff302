"""Failure classes, and the report of a failure in an event and a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from training.contract.events import EventReader
from training.job.processes import reporting
from training.job.processes.reporting import ArgumentError, BadData, Events, Stopped


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
        (RuntimeError("std::bad_alloc"), "OutOfMemory"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "OutOfMemory"),
        (RuntimeError("unable to mmap 90868376 bytes from file <x>: Cannot allocate memory (12)"), "OutOfMemory"),
        (real_allocation_failure(), "OutOfMemory"),
        (ValueError("ran out of memory cards"), "Error"),
        (BadData("x"), "BadData"),
        (Stopped(), "Stopped"),
        (ArgumentError("x"), "Error"),
    ],
)
def test_each_error_has_its_failure_class(error: BaseException, expected: str) -> None:
    assert reporting.failure_class(error) == expected


def report(error: BaseException, folder: Path) -> tuple[int, dict[str, Any]]:
    read, write = os.pipe()
    code = reporting.report(error, Events(descriptor=write), folder)
    os.close(write)
    with os.fdopen(read) as stream:
        [event] = EventReader().read(stream.read().split("\n"))
    return code, dict(event.fields)


def test_a_failure_is_reported_as_event_and_file(tmp_path: Path) -> None:
    code, event = report(BadData("x" * 2000 + "\nmore"), tmp_path / "output")
    assert code == 1
    assert (event["failure_class"], event["message"]) == ("BadData", "x" * 2000)
    text = (tmp_path / "output/failure").read_text()
    assert len(text) == 1024
    assert text.startswith("BadData: xxx")


def test_a_stopped_process_reports_the_failure_of_another(tmp_path: Path) -> None:
    assert report(Stopped("SIGTERM was received"), tmp_path)[1]["failure_class"] == "Stopped"
    assert not (tmp_path / "failure").exists()
    report(MemoryError("no room: at all"), tmp_path)
    code, event = report(Stopped(), tmp_path)
    assert (code, event["failure_class"], event["message"]) == (1, "OutOfMemory", "no room: at all")
    report(BadData("later"), tmp_path)
    assert (tmp_path / "failure").read_text() == "OutOfMemory: no room: at all"
