"""Run one job on this machine: its container folders, its processes, its model and its state.

The services of this machine and of clusters have a process for each job, which calls `supervise_safely`. Standard
library only, so that it starts quickly.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from state.own_process import own_process
from training.contract.errors import InputError
from training.contract.failures import OTHER, Failure, class_of, error_output
from training.contract.service import GRACE_VARIABLE, Request
from training.services.supervision import container, processes, toolkit
from training.services.supervision.disk import FULL_ERRORS, full_reason, is_full, names_full_disk
from training.services.supervision.job_folder import MAX_REASON_CHARACTERS, JobFolder, Record

CORES_VARIABLE = "TRAINFARE_CORES"
MEMORY_VARIABLE = "TRAINFARE_MEMORY_GIB"
STOP_GRACE_SECONDS = 120.0
"""Seconds between SIGTERM and SIGKILL, as on SageMaker."""
MEASURE_VARIABLE = "TRAINFARE_MEASURE_LOAD"
"""Variable of a request. `1` measures the load beside the job."""
FIELD = "MachineLoadMetrics"
"""Field of a job's description with the metrics, `machine/NAME` to value."""

_MODULE = "training.job.measuring.machine_load"
_END_SECONDS = 30.0

EXIT_CODE_OF_SIGKILL = 137
ELLIPSIS = "\n[...]\n"

FINAL_STATUSES = {
    "itself": ("Completed", "Training job completed"),
    "stop": ("Stopped", "Training job stopped"),
    "time limit": ("MaxRuntimeExceeded", "Training job runtime exceeded MaxRuntimeInSeconds"),
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Resources of this machine that a job may use, and how it gets them."""

    cpus: int
    """Number of cores; 0 if it is not known."""
    gpus: tuple[str, ...]
    """Values for CUDA_VISIBLE_DEVICES."""
    pinned: tuple[int, ...] = ()
    """Numbers of the cores that the processes must run on; empty for any core."""
    memory_bytes: int | None = None
    """Limit on the data segment of each process; None for no limit of ours."""
    since: float | None = None
    """Time from which on the place is billed, in seconds since the epoch; None for the start of the download."""
    variables: Mapping[str, str] | None = None
    """Variables that the job inherits; None for those of this process that a container has as well."""
    command: Callable[[list[str]], list[str]] = list
    """Returns the command that runs the script's command, which differs for several machines."""
    is_ours: Callable[[], bool] = lambda: True
    """Returns whether the place is still the job's. If not, the processes are killed and nothing more is recorded."""
    was_stopped: Callable[[], bool] = lambda: True
    """Returns True if SIGTERM came because somebody stopped the job. False: its place is taken away."""


def supervise_safely(folder: JobFolder, record: Record, place: Callable[[Request], Place | None]) -> None:
    """Run the job, and record its failure if anything goes wrong. `place` waits for a place; None: it was stopped."""
    try:
        _supervise(folder, folder.request(), record, place)
    except (toolkit.DataError, InputError) as error:
        message = f"{str(error).rstrip('.')}."
        failure_class = error.failure_class if isinstance(error, toolkit.DataError) else OTHER
        record.fail(Failure(failure_class, message), f"ClientError: {message}")
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL_ERRORS:
            message = f"{full_reason(folder.path)}."
            record.fail(Failure("DiskFull", message), f"ClientError: {message}")
            return
        traceback.print_exc()
        message = f"InternalServerError: {type(error).__name__}: {error}"
        record.fail(Failure(class_of(message) or OTHER, message), message)


def _supervise(
    folder: JobFolder, request: Request, record: Record, find_place: Callable[[Request], Place | None]
) -> None:
    """Create the container's folders, run the script, and pack its model."""
    place = find_place(request)
    if place is None:
        record.end_billing()
        record.end("Stopped", "Training job stopped before it started")
        return
    container.check_inputs(request)  # before the download, from which on time is billed
    record.enter("Downloading", "Downloading input data and the source", place.since)
    request = container.relocate_paths(request, folder.base)
    container.create_folders(folder.base, request)
    record.enter("Training", "Training in progress")
    measures_load = request.get("Environment", {}).get(MEASURE_VARIABLE) == "1"
    load = LoadMeasurement(request["TrainingJobName"], place) if measures_load else None

    is_lost = False

    def record_stop(ended_by: processes.EndedBy) -> None:
        nonlocal is_lost
        is_lost = ended_by == "stop" and not place.was_stopped()
        if is_lost:
            record.enter("Interrupted", "The allocation ends")
        elif ended_by == "stop":
            record.enter("Stopping", "Stopping the training job")

    outcome = processes.run(_program(folder, request, place), record_stop)
    if load:
        record.add(FIELD, load.metrics())
    if is_lost:
        return
    if outcome.ended_by == "itself" and outcome.exit_code != 0:
        _finish_failed(folder, record, outcome)
    else:
        _finish(folder, request, record, outcome)


def process_count(request: Request) -> int:
    return toolkit.processes(toolkit.decoded(request["HyperParameters"]))


def _program(folder: JobFolder, request: Request, place: Place) -> processes.Program:
    variables = request.get("Environment", {})
    inherited = container.inherited(request) if place.variables is None else dict(place.variables)
    in_container = container.environment(
        request, folder.base, inherited, cores=place.cpus, gpus=place.gpus, processes=process_count(request)
    )
    return processes.Program(
        command=place.command(
            toolkit.command(
                container.python(request),
                toolkit.decoded(request["HyperParameters"]),
                is_package=(folder.base / "code" / "setup.py").exists(),
            )
        ),
        folder=folder.base / "code",
        environment=in_container,
        log=folder.log,
        cores=place.pinned,
        memory_bytes=place.memory_bytes,
        is_ours=place.is_ours,
        # All attempts of a job share its limit.
        limit_seconds=max(
            1.0, request["StoppingCondition"]["MaxRuntimeInSeconds"] - folder.state().get("EarlierSeconds", 0.0)
        ),
        grace_seconds=float(variables.get(GRACE_VARIABLE, STOP_GRACE_SECONDS)),
    )


def _finish(folder: JobFolder, request: Request, record: Record, outcome: processes.Outcome) -> None:
    """End a job that completed or was stopped. A stopped job keeps the model that it saved, as on SageMaker."""
    record.enter("Uploading", "Uploading the model")
    if artifact := container.upload_model(folder.base, request):
        record.add("ModelArtifacts", {"S3ModelArtifacts": artifact.as_uri()})
    record.end_billing()
    record.end(*FINAL_STATUSES[outcome.ended_by])


def _finish_failed(folder: JobFolder, record: Record, outcome: processes.Outcome) -> None:
    record.end_billing()
    failure_text, log_tail = folder.failure_text(), folder.log_tail()
    no_space = is_full(folder.path) or names_full_disk([failure_text, *log_tail[-5:]])
    disk = full_reason(folder.path) if no_space else ""
    failure, reason = failure_of_outcome(outcome, failure_text, log_tail, disk)
    record.fail(failure, reason)


def failure_of_outcome(
    outcome: processes.Outcome, failure_text: str, log_tail: Sequence[str], disk: str = ""
) -> tuple[Failure, str]:
    """Return the failure of a script that ended itself, and the reason in the form of SageMaker and its toolkit.

    `failure_text` is the content of `output/failure`; it is empty if the script did not write the file. `disk` is the
    sentence about a full disk, if it is full.
    """
    message = failure_text.strip() or "\n".join(error_output(log_tail))
    signal_number = _killed_by(outcome.exit_code, log_tail)
    is_out_of_memory = outcome.out_of_memory and signal_number == signal.SIGKILL
    killed = _signal_text(signal_number) if signal_number else ""
    last_line = next((line for line in reversed(message.splitlines()) if line.strip()), "")
    failure_class = class_of(message) or ("Killed" if killed else "DiskFull" if disk else OTHER)
    failure = Failure("OutOfMemory" if is_out_of_memory else failure_class, killed or disk or last_line)
    extra = f"OutOfMemory: {killed}" if is_out_of_memory else killed or disk
    head = f"AlgorithmError: ExecuteUserScriptError:\nExitCode {outcome.exit_code}\n"
    if extra:
        head += f'ExtraInfo "{extra}"\n'
    limit_characters = MAX_REASON_CHARACTERS - len(head) - len("ErrorMessage ") - 2
    return failure, head + f'ErrorMessage "{shortened(message, limit_characters)}"'


def shortened(text: str, limit_characters: int) -> str:
    """Shorten text in the middle. A quarter of the limit is the start; the rest is the end, which has the error."""
    if len(text) <= limit_characters:
        return text
    beginning = limit_characters // 4
    return text[:beginning] + ELLIPSIS + text[len(text) - (limit_characters - beginning - len(ELLIPSIS)) :]


def _killed_by(exit_code: int, log_tail: Sequence[str]) -> int:
    """Return the number of the signal that killed the script, or 0.

    torchrun itself exits with 1 and logs a signal as a negative `exitcode`. The last heading contains the process that
    failed first; torchrun stopped the others.
    """
    if exit_code == EXIT_CODE_OF_SIGKILL:
        return int(signal.SIGKILL)
    if exit_code < 0:
        return -exit_code
    root_cause = "\n".join(log_tail).rpartition("Root Cause (first observed failure)")[2]
    reported = re.findall(r"^\s*exitcode\s*:\s*-(\d+)", root_cause, flags=re.MULTILINE)
    return int(reported[0]) if reported else 0


def _signal_text(number: int) -> str:
    with contextlib.suppress(ValueError):
        return f"Killed by {signal.Signals(number).name}"
    return f"Killed by signal {number}"


class LoadMeasurement:
    """A process in the job's session that reads the machine's counters. It ends when this process ends."""

    def __init__(self, job_name: str, place: Place) -> None:
        arguments = ["--cpus", str(place.cpus), *(["--gpu"] if place.gpus else [])]
        variables = {"PATH": os.environ.get("PATH", ""), "TRAINING_JOB_NAME": job_name, "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            **own_process(_MODULE, *arguments, environment=variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def metrics(self) -> dict[str, float]:
        """End the measurement and return its metrics; empty if it failed or the system has no counters."""
        try:
            output, _ = self._process.communicate(timeout=_END_SECONDS)
            metrics: dict[str, float] = json.loads(output)
        except (subprocess.TimeoutExpired, ValueError, OSError):
            self._process.kill()
            return {}
        return metrics
