"""Two jobs with the same checkpoint folder, the first of which is killed: together they are one training."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from experiments.planning.job_source import make_job_source
from tests.support.job.arguments import job_arguments
from tests.support.job.job_process import example_rows, write_channel, write_tiny_model
from tests.support.services.following import follow
from training.contract.events import Event
from training.contract.failures import failure_of
from training.contract.job_spec import JobSpec
from training.contract.request import build
from training.services.launcher import Job, submit
from training.services.local.service import LocalService
from training.services.supervision.processes import marked_processes

ARGUMENTS = {
    "batch_size": 2,
    "precision": "fp32",
    "logging_steps": 1,
    "learning_rate": 0.01,
    "max_length": 12,
    "padding": "longest",
    "save_strategy": "steps",
    "save_steps": 4,
    "save_total_limit": 1,
}

EPOCHS, STEPS = 40, 1000
"""Length of a training that takes several seconds: it must still be running when the test kills it."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a tiny model and its channels."""
    write_tiny_model(tmp_path / "model")
    write_channel(tmp_path / "train", *example_rows(50))
    write_channel(tmp_path / "validation", *example_rows(13))
    return tmp_path


def start(home: Path, name: str, checkpoints: str, devices: int, **arguments: Any) -> Job:
    spec = JobSpec(
        name=name,
        hyperparameters=job_arguments(**ARGUMENTS, **arguments),
        channels={each: (home / each).as_uri() for each in ("train", "validation", "model")},
        source_uri=make_job_source(home).as_uri(),
        output_uri=(home / "outputs").as_uri(),
        checkpoint_uri=(home / checkpoints).as_uri(),
        devices=devices,
        environment={"CUDA_VISIBLE_DEVICES": ""},
    )
    return submit(LocalService(home / "state"), build(spec))


def events_of(job: Job, until_step: int = 10**9) -> list[Event]:
    """Return a job's events until it reports a step or ends."""
    events: list[Event] = []
    for update in follow(job):
        events += update.events
        if any(event.fields.get("step", -1) >= until_step for event in events if event.kind == "metric"):
            break
    return events


def losses(events: list[Event]) -> dict[int, Any]:
    return {e.fields["step"]: e.fields["values"] for e in events if e.kind == "metric" and "loss" in e.fields["values"]}


def numbers(curve: dict[int, Any]) -> dict[int, Any]:
    return {step: (values["loss"], values["grad_norm"], values["learning_rate"]) for step, values in curve.items()}


@pytest.mark.gate
@pytest.mark.slow
def test_a_second_job_resumes_the_training_of_a_killed_one(home: Path) -> None:
    whole = numbers(losses(events_of(start(home, "whole", "checkpoints of whole", 1, epochs=EPOCHS))))
    assert sorted(whole) == list(range(1, STEPS + 1))

    first = start(home, "first", "checkpoints of both", 1, epochs=EPOCHS)
    events_of(first, until_step=5)
    for process in marked_processes(str(home / "state" / "jobs" / "first" / "opt" / "ml")):
        with suppress(ProcessLookupError):  # it may have ended with the one before
            os.kill(process, signal.SIGKILL)
    before = events_of(first)
    assert first.describe()["TrainingJobStatus"] == "Failed"
    assert failure_of(first.describe(), before, []).failure_class == "Killed"

    second = events_of(start(home, "second", "checkpoints of both", 1, epochs=EPOCHS))
    (begun,) = (event for event in second if event.kind == "start")
    assert 4 <= begun.fields["resumed_from_step"] <= max(losses(before))
    after = numbers(losses(second))
    assert sorted(after) == list(range(begun.fields["resumed_from_step"] + 1, STEPS + 1))
    assert numbers(losses(before)) | after == whole
    assert [event.kind for event in second if event.kind == "failure"] == []
