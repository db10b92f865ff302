"""Read the jobs of a service that keeps each in a folder, which any process can read.

jobs/<name>/    request.json, state.json, log.txt, supervisor.txt, supervisor.lock, opt/ml/ (the container)
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlparse

from state.regular_files import open_regular
from training.contract.errors import ArtifactError, InputError, JobNotFound
from training.contract.job_spec import JOB_NAME_PATTERN
from training.contract.service import GRACE_VARIABLE, TERMINAL_STATUSES, Description, LogPage, Request
from training.services.supervision import toolkit
from training.services.supervision.job_folder import DamagedJob, JobFolder, LogTimes, State
from training.services.supervision.supervise import MEMORY_VARIABLE

PAGE_BYTES = 4 * 2**20
"""Size limit of one page of the log; a longer line is split."""

OMITTED_FIELDS = frozenset({"Tags"})
"""Fields of a request that its description omits. SageMaker has a separate call for tags."""


class FolderService(ABC):
    """The part of a service that only reads. `root` is the folder with the folder `jobs`."""

    def __init__(self, root: Path) -> None:
        # A job's processes are found by this path, so every process must use the same spelling.
        self._root = root.resolve()

    @abstractmethod
    def _state(self, folder: JobFolder) -> State:
        """Return the state now, also of a job whose supervisor has died."""

    def describe(self, job_name: str) -> Description:
        """Return the job's state now. Raises JobNotFound, and DamagedJob for a folder that cannot be read."""
        folder = self._job(job_name)
        request, state = folder.request(), self._state(folder)
        fields = {"Environment": {}} | {name: value for name, value in request.items() if name not in OMITTED_FIELDS}
        changing = {name: _with_times(name, value) for name, value in state.items() if name != "SupervisorPid"}
        return cast(Description, fields | changing)

    def logs(self, job_name: str, cursor: str | None = None) -> LogPage:
        """Return the log lines after `cursor`, a number of bytes, or from the start."""
        folder = self._job(job_name)
        offset_bytes = int(cursor or 0)
        # Read the status before the log: if the job has ended, the log that is read next is complete.
        complete = self._state(folder)["TrainingJobStatus"] in TERMINAL_STATUSES
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


def _with_times(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [{key: _with_times(key, each) for key, each in entry.items()} for entry in value]
    if name.endswith("Time"):
        return datetime.fromtimestamp(value, UTC)
    return value


def check_program(request: Request) -> None:
    """Raise InputError for a name, a program or a limit that cannot run. The message states the value and the rule."""
    name = request["TrainingJobName"]
    if not re.fullmatch(JOB_NAME_PATTERN, name):
        raise InputError(f"Job name '{name}' is not allowed: it must match {JOB_NAME_PATTERN}.")
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
            raise InputError(f"{key} requires a launcher of SageMaker's images; this service has only torchrun.")
    variables = request.get("Environment", {})
    for name in (MEMORY_VARIABLE, GRACE_VARIABLE):
        text = variables.get(name, "1")
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", text) or float(text) == 0:
            raise InputError(f"{name} is '{text}'; it must be a number greater than 0.")
