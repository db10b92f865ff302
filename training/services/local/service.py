"""A training service on this machine: SageMaker's request in, SageMaker's description out.

All state is on disk, under the service's root, so that any process can describe, follow, stop or collect any job:

    jobs/<name>/    request.json, state.json, log.txt, supervisor.txt, supervisor.lock, opt/ml/ (the container)
    slots/          one lock a core or GPU, and the queue for them
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlparse

from training.contract.errors import ArtifactError, JobExists, JobNotFound, ServiceError
from training.contract.job_spec import JOB_NAME_PATTERN
from training.contract.service import TERMINAL_STATUSES, Description, LogPage, Request
from training.services.local import job_record, processes, request_rules, supervisor
from training.services.local.job_folder import JobFolder, State
from training.services.local.log_times import LogTimes

REPOSITORY = Path(__file__).resolve().parents[3]

PAGE_BYTES = 4 * 2**20
"""Most that one page of the log holds; a longer line is cut."""

UNSHOWN_FIELDS = frozenset({"Tags"})
"""Fields of a request that its description leaves out; SageMaker lists tags by a call of their own."""

ABANDONED = "InternalServerError: Killed: the job's supervisor is gone, by a signal or a restart of the machine."


class LocalService:
    """Jobs on this machine, each under a supervisor of its own that outlives whoever started it.

    Beyond SageMaker's, a request's Environment may hold TRAINFARE_CORES (cores that the job takes; default all),
    TRAINFARE_MEMORY_GIB (limit on each process's data) and TRAINFARE_STOP_GRACE_SECONDS (default 120), and a
    description holds `BillableSecondsExact` (float).
    """

    name = "local"
    pauses_seconds = (0.05, 1.0)
    log_delay_seconds = 0.0
    jobs_command = "python -m experiments jobs"

    def __init__(self, root: Path) -> None:
        # One spelling of the path for everybody: the processes of a job are found by it.
        self._root = root.resolve()

    def create(self, request: Request) -> None:
        """Start the job. Raises JobExists when the name is taken, InputError for what this machine cannot run."""
        request_rules.check(request)
        folder = self._path(request["TrainingJobName"])
        if JobFolder(folder).request_file.exists():
            raise JobExists(f"Job {folder.name} exists already in {folder.parent}.")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            self._stage(folder, request)
        except OSError as error:
            raise ServiceError(f"Job {folder.name} could not be started: {error}.") from error

    def _stage(self, folder: Path, request: Request) -> None:
        # A folder whose name starts with a full stop is not a job, whatever becomes of this process.
        staged = JobFolder(Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent)))
        try:
            staged.request_file.write_text(json.dumps(request))
            self._start(staged, folder)
        finally:
            shutil.rmtree(staged.path, ignore_errors=True)

    def _start(self, staged: JobFolder, folder: Path) -> None:
        module = [sys.executable, "-m", supervisor.__name__, str(staged.path), str(folder)]
        with (staged.path / "supervisor.txt").open("ab") as errors:
            started = subprocess.run(
                module,
                env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
                check=False,
            )
        if started.stdout == supervisor.EXISTS:
            raise JobExists(f"Job {folder.name} exists already in {folder.parent}.")
        if started.stdout != supervisor.CREATED:
            said = (staged.path / "supervisor.txt").read_text(errors="replace").strip().splitlines()[-1:]
            raise ServiceError(f"Job {folder.name} could not be started: {''.join(said) or 'its supervisor died'}.")

    def describe(self, job_name: str) -> Description:
        """Return the job's state now. Raises JobNotFound."""
        folder = self._job(job_name)
        return _description(folder.request(), _state(folder))

    def stop(self, job_name: str) -> None:
        """Ask the job to stop: SIGTERM, 120 s of grace, SIGKILL. Does nothing to a job that has ended."""
        folder = self._job(job_name)
        state = _state(folder)
        if state["TrainingJobStatus"] in TERMINAL_STATUSES:
            return
        try:
            process = os.pidfd_open(state["SupervisorPid"])
        except ProcessLookupError:
            return
        try:
            # Asked again: the number now names that very process, if the supervisor still lives.
            if folder.is_supervised():
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)

    def logs(self, job_name: str, cursor: str | None = None) -> LogPage:
        """Return the log lines after `cursor` (a number of bytes), or from the start."""
        folder = self._job(job_name)
        offset_bytes = _offset(cursor)
        # Asked first: what a job that has ended wrote before is complete, its last line included.
        complete = _state(folder)["TrainingJobStatus"] in TERMINAL_STATUSES
        if not folder.log.exists():
            return LogPage(lines=[], cursor=str(offset_bytes))
        marks = LogTimes(folder.log)
        with folder.log.open("rb") as log:
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
        """Return the path of the log."""
        return str(self._job(job_name).log)

    def jobs(self, *, running_only: bool = False) -> list[Description]:
        """Return the jobs, newest first."""
        folders = self._path("").glob("[!.]*/state.json")
        found = [each for file in folders if (each := self._described(file.parent.name))]
        if running_only:
            found = [each for each in found if each["TrainingJobStatus"] not in TERMINAL_STATUSES]
        return sorted(found, key=lambda each: each["CreationTime"], reverse=True)

    def _described(self, job_name: str) -> Description | None:
        """Return the job's state, or None of one that is deleted meanwhile."""
        try:
            return self.describe(job_name)
        except (JobNotFound, FileNotFoundError):
            return None

    def fetch_output(self, job_name: str, filename: str) -> bytes | None:
        """Return a file that the job wrote to its output data folder, or None when there is none."""
        data = self._job(job_name).base / "output" / "data"
        file = (data / filename).resolve()
        inside = file.is_relative_to(data.resolve())
        return file.read_bytes() if inside and file.is_file() else None

    @contextmanager
    def open_model(self, uri: str) -> Iterator[BinaryIO]:
        """Open a model artifact by its address. Raises ArtifactError."""
        place = urlparse(uri)
        if place.scheme != "file":
            raise ArtifactError(f"The model artifact {uri} is not on this machine.")
        try:
            artifact = Path(unquote(place.path)).open("rb")  # noqa: SIM115 - errors of reading it are the reader's
        except OSError as error:
            raise ArtifactError(f"The model artifact {place.path} cannot be read: {error.strerror}.") from error
        with artifact:
            yield artifact

    def _path(self, job_name: str) -> Path:
        return self._root / "jobs" / job_name

    def _job(self, job_name: str) -> JobFolder:
        folder = JobFolder(self._path(job_name))
        if not re.fullmatch(JOB_NAME_PATTERN, job_name) or not folder.request_file.exists():
            raise JobNotFound(f"There is no job '{job_name}' in {folder.path.parent}.")
        return folder


def _offset(cursor: str | None) -> int:
    if cursor is not None and not re.fullmatch(r"[0-9]{1,18}", cursor):
        raise ServiceError(f"'{cursor}' is no place in a log of the local service; it must be a number of bytes.")
    return int(cursor or 0)


def _page_bytes(marks: LogTimes, offset_bytes: int, complete: bool) -> int:
    """Return how much to read: while the job runs, only lines whose time is known, so that it never changes."""
    if complete or marks.marked_bytes is None:
        return PAGE_BYTES
    return min(PAGE_BYTES, max(0, marks.marked_bytes - offset_bytes))


def _whole_lines(content: bytes, complete: bool) -> bytes:
    """Return `content` up to its last line end; all of it at the end of a complete log, or of a line too long."""
    end = content.rfind(b"\n") + 1
    at_the_end = complete and len(content) < PAGE_BYTES
    endless = end == 0 and len(content) == PAGE_BYTES
    return content if at_the_end or endless else content[:end]


def _state(folder: JobFolder) -> State:
    """Return the state now; a job whose supervisor was killed has failed, and what is left of it is killed."""
    state = folder.state()
    if state["TrainingJobStatus"] in TERMINAL_STATUSES or folder.is_supervised():
        return state
    state = folder.state()  # Its last words may have come between the two questions.
    if state["TrainingJobStatus"] in TERMINAL_STATUSES:
        return state
    processes.kill_marked(str(folder.base))
    printed = folder.log.stat().st_mtime if folder.log.exists() else 0.0
    last_sign = max(state["LastModifiedTime"], printed)
    failed = job_record.entered(job_record.billed(state, last_sign), "Failed", "Training job failed", last_sign)
    return failed | {"FailureReason": ABANDONED}


def _description(request: Request, state: State) -> Description:
    fields = {"Environment": {}} | {name: value for name, value in request.items() if name not in UNSHOWN_FIELDS}
    fields |= {name: _with_times(name, value) for name, value in state.items() if name != "SupervisorPid"}
    return fields


def _with_times(name: str, value: Any) -> Any:
    """Return a value of the state with its times as `datetime`s."""
    if isinstance(value, list):
        return [{key: _with_times(key, each) for key, each in entry.items()} for entry in value]
    if name.endswith("Time") or name == "Timestamp":
        return datetime.fromtimestamp(value, UTC)
    return value
