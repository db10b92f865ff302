"""A training service on this machine that accepts SageMaker's requests and returns SageMaker's descriptions.

All state is on disk, under the service's root, so any process can describe, follow or stop any job:

    jobs/<name>/    request.json, state.json, log.txt, supervisor.txt, supervisor.lock, opt/ml/ (the container)

The locks of cores and GPUs, and the queue of waiting jobs, are in a folder that all jobs of the machine share:
`state.home`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlparse

from state.home import SLOTS_VARIABLE, check_compile_cache, slots_folder
from state.own_process import own_process
from state.regular_files import open_regular
from training.contract.errors import ArtifactError, InputError, JobExists, JobNotFound, ServiceError
from training.contract.failures import Failure
from training.contract.job_spec import JOB_NAME_PATTERN
from training.contract.service import TERMINAL_STATUSES, Description, LogPage, Request
from training.services.local import processes, slots, supervisor, toolkit
from training.services.local.disk import FULL_ERRORS, full_reason, is_full, names_full_disk
from training.services.local.job_folder import (
    DamagedJob,
    JobFolder,
    LogTimes,
    State,
    failure_fields,
    with_billing,
    with_transition,
)
from training.services.local.supervisor import MEMORY_VARIABLE
from training.services.local.traits import GRACE_VARIABLE, TRAITS

PAGE_BYTES = 4 * 2**20
"""Size limit of one page of the log; a longer line is split."""

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
"""Variable with the folder of torch's compile cache, which is executed."""

OMITTED_FIELDS = frozenset({"Tags"})
"""Fields of a request that its description omits. SageMaker has a separate call for tags."""

ABANDONED = Failure("Killed", "the job's supervisor is gone; it was killed or the machine was restarted.")


class LocalService:
    """Service for jobs on this machine. Each job has its own supervisor, which outlives the process that started it.

    A request's Environment may also contain TRAINFARE_CORES (number of cores for the job; default all),
    TRAINFARE_MEMORY_GIB (limit on the data segment of each process) and TRAINFARE_STOP_GRACE_SECONDS (default 120).
    TRAINFARE_MEASURE_LOAD=1 measures the load of other processes beside a job that does not do it itself. A description
    also contains `BillableSecondsExact` (float) and that load (`MachineLoadMetrics`).
    """

    traits, name = TRAITS, TRAITS.name
    pauses_seconds = (0.05, 1.0)
    log_delay_seconds = longest_delay_seconds = 0.0
    jobs_command = "trainfare jobs"

    def __init__(self, root: Path, slots: Path | None = None) -> None:
        """Run the jobs in the state folder `root`. `slots` has the locks of cores; None is this machine's folder."""
        self._slots = slots
        # A job's processes are found by this path, so every process must use the same spelling.
        self._root = root.resolve()

    def create(self, request: Request) -> None:
        """Start the job. Raises JobExists if the name is taken, or InputError if this machine cannot run the job."""
        check_request(request)
        self.check_folders(request.get("Environment", {}))
        folder = self._path(request["TrainingJobName"])
        if JobFolder(folder).request_file.exists():
            raise JobExists(f"Job {folder.name} already exists in {folder.parent}.")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            # A folder whose name starts with a full stop is never a job, even if this process is killed.
            staged = JobFolder(Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent)))
            try:
                staged.request_file.write_text(json.dumps(request))
                self._start(staged, folder)
            finally:
                shutil.rmtree(staged.path, ignore_errors=True)
        except OSError as error:
            reason = full_reason(self._root) if error.errno in FULL_ERRORS else str(error)
            raise ServiceError(f"Job {folder.name} could not be started: {reason}.") from error

    def check_folders(self, variables: Mapping[str, str], *, create: bool = True) -> None:
        """Raise InputError if other users could replace files in the folders that a job shares with other jobs.

        `create` makes those that are missing.
        """
        if self._slots is None:
            slots_folder(create=create)
        cache = variables.get(CACHE_VARIABLE)
        # A cache in the job's own folder is not shared, and a folder that exists is a job that exists.
        if cache and not Path(cache).resolve().is_relative_to(self._root / "jobs"):
            check_compile_cache(Path(cache), create=create)

    def _start(self, staged: JobFolder, folder: Path) -> None:
        variables = os.environ | {SLOTS_VARIABLE: str((self._slots or slots_folder()).absolute())}
        with (staged.path / "supervisor.txt").open("ab") as errors:
            started = subprocess.run(
                **own_process(supervisor.__name__, str(staged.path), str(folder), environment=variables),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
                check=False,
            )
        if started.stdout == supervisor.EXISTS:
            raise JobExists(f"Job {folder.name} already exists in {folder.parent}.")
        if started.stdout != supervisor.CREATED:
            last_line = (staged.path / "supervisor.txt").read_text(errors="replace").strip().splitlines()[-1:]
            reason = "".join(last_line) or "its supervisor died"
            if is_full(staged.path) or names_full_disk(last_line):
                reason = full_reason(self._root)
            raise ServiceError(f"Job {folder.name} could not be started: {reason}.")

    def describe(self, job_name: str) -> Description:
        """Return the job's state now. Raises JobNotFound, and DamagedJob for a folder that cannot be read."""
        folder = self._job(job_name)
        request, state = folder.request(), _state(folder)
        fields = {"Environment": {}} | {name: value for name, value in request.items() if name not in OMITTED_FIELDS}
        changing = {name: _with_times(name, value) for name, value in state.items() if name != "SupervisorPid"}
        return cast(Description, fields | changing)

    def stop(self, job_name: str) -> None:
        folder = self._job(job_name)
        state = _state(folder)
        if state["TrainingJobStatus"] in TERMINAL_STATUSES:
            return
        try:
            process = os.pidfd_open(state["SupervisorPid"])
        except ProcessLookupError:
            return
        try:
            # Check again, because the process ID could have been reused before it was opened.
            if folder.is_supervised():
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)

    def logs(self, job_name: str, cursor: str | None = None) -> LogPage:
        """Return the log lines after `cursor`, a number of bytes, or from the start."""
        folder = self._job(job_name)
        offset_bytes = int(cursor or 0)
        # Read the status before the log: if the job has ended, the log that is read next is complete.
        complete = _state(folder)["TrainingJobStatus"] in TERMINAL_STATUSES
        stream = folder.open_log()
        if stream is None:
            return LogPage(lines=[], cursor=str(offset_bytes))
        with stream as log:
            marks = LogTimes(folder.log)
            log.seek(offset_bytes)
            content = _whole_lines(log.read(_page_bytes(marks, offset_bytes, complete)), complete)
        lines = content.removesuffix(b"\n").split(b"\n") if content else []
        ends = accumulate((len(line) + 1 for line in lines), initial=offset_bytes)
        return LogPage(
            lines=[line.decode("utf-8", "replace") for line in lines],
            cursor=str(offset_bytes + len(content)),
            times=marks.at([end - 1 for end in ends][1:], otherwise=folder.log.stat().st_mtime),
        )

    def log_location(self, job_name: str) -> str:
        return str(self._job(job_name).log)

    def jobs(self, *, running_only: bool = False) -> list[Description]:
        jobs: list[Description] = []
        for file in self._path("").glob("[!.]*/state.json"):
            with suppress(JobNotFound, FileNotFoundError, DamagedJob):  # just deleted, or it cannot be read
                jobs.append(self.describe(file.parent.name))
        if running_only:
            jobs = [job for job in jobs if job["TrainingJobStatus"] not in TERMINAL_STATUSES]
        return sorted(jobs, key=lambda job: job["CreationTime"], reverse=True)

    def fetch_output(self, job_name: str, filename: str) -> bytes | None:
        data = self._job(job_name).base / "output" / "data"
        file = (data / filename).resolve()
        inside = file.is_relative_to(data.resolve())
        return file.read_bytes() if inside and file.is_file() else None

    @contextmanager
    def open_model(self, uri: str) -> Iterator[BinaryIO]:
        location = urlparse(uri)
        if location.scheme != "file":
            raise ArtifactError(f"The model artifact {uri} is not on this machine.")
        try:
            artifact = open_regular(Path(unquote(location.path)))
        except OSError as error:
            raise ArtifactError(f"The model artifact {location.path} cannot be read: {error.strerror}.") from error
        with artifact:
            yield artifact

    def _path(self, job_name: str) -> Path:
        return self._root / "jobs" / job_name

    def _job(self, job_name: str) -> JobFolder:
        folder = JobFolder(self._path(job_name))
        if not re.fullmatch(JOB_NAME_PATTERN, job_name) or not folder.request_file.exists():
            raise JobNotFound(f"Job '{job_name}' does not exist in {folder.path.parent}.")
        return folder


def _page_bytes(marks: LogTimes, offset_bytes: int, complete: bool) -> int:
    """Return the number of bytes to read. While the job runs, lines without a recorded time are not read yet."""
    if complete or marks.marked_bytes is None:
        return PAGE_BYTES
    return min(PAGE_BYTES, max(0, marks.marked_bytes - offset_bytes))


def _whole_lines(content: bytes, complete: bool) -> bytes:
    """Return `content` up to its last line end, or all of it at the end of a complete log or in an overlong line."""
    end = content.rfind(b"\n") + 1
    is_last_page = complete and len(content) < PAGE_BYTES
    is_overlong = end == 0 and len(content) == PAGE_BYTES
    return content if is_last_page or is_overlong else content[:end]


def _state(folder: JobFolder) -> State:
    """Return the state now. A job whose supervisor was killed counts as failed, and its processes are killed."""
    state = folder.state()
    if state["TrainingJobStatus"] in TERMINAL_STATUSES or folder.is_supervised():
        return state
    state = folder.state()  # The supervisor may have ended the job between the two checks.
    if state["TrainingJobStatus"] in TERMINAL_STATUSES:
        return state
    processes.kill_marked(str(folder.base))
    last_output = folder.log.stat().st_mtime if folder.log.exists() else 0.0
    end = max(state["LastModifiedTime"], last_output)
    failed = with_transition(with_billing(state, end), "Failed", "Training job failed", end)
    return failed | failure_fields(ABANDONED, f"InternalServerError: Killed: {ABANDONED.message}")


def _with_times(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [{key: _with_times(key, each) for key, each in entry.items()} for entry in value]
    if name.endswith("Time"):
        return datetime.fromtimestamp(value, UTC)
    return value


def check_request(request: Request) -> None:
    """Raise InputError for a request that cannot run here. The message states the field, its value and the rule."""
    name, resources = request["TrainingJobName"], request["ResourceConfig"]
    if not re.fullmatch(JOB_NAME_PATTERN, name):
        raise InputError(f"Job name '{name}' is not allowed: it must match {JOB_NAME_PATTERN}.")
    if resources["InstanceCount"] != 1:
        raise InputError(f"instance_count is {resources['InstanceCount']}; it must be 1 on the local service.")
    hyperparameters = toolkit.decoded(request["HyperParameters"])
    program = str(hyperparameters.get("sagemaker_program", ""))
    if not re.fullmatch(toolkit.PROGRAM_PATTERN, program) or ".." in program.split("/"):
        raise InputError(f"sagemaker_program is '{program}'; it must be a path within the source, such as train.py.")
    if hyperparameters.get("sagemaker_torch_distributed_enabled") and not program.endswith(".py"):
        raise InputError(f"sagemaker_program is '{program}'; torchrun starts only Python files.")
    if "sagemaker_training_compiler_enabled" in hyperparameters:
        raise InputError(
            "Compilers 'trcomp' and 'trcomp-off' exist only in SageMaker's images: run the job on SageMaker, or choose "
            "the compiler 'none' or 'inductor'."
        )
    for key in toolkit.DISTRIBUTION_KEYS:
        if hyperparameters.get(key) and key != "sagemaker_torch_distributed_enabled":
            raise InputError(f"{key} requires a launcher of SageMaker's images; the local service has only torchrun.")
    variables = request.get("Environment", {})
    slots.requested_cores(variables)
    for name in (MEMORY_VARIABLE, GRACE_VARIABLE):
        text = variables.get(name, "1")
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", text) or float(text) == 0:
            raise InputError(f"{name} is '{text}'; it must be a number greater than 0.")
