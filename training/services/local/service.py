"""A training service on this machine that accepts SageMaker's requests and returns SageMaker's descriptions.

All state is on disk, under the service's root, so any process can describe, follow or stop any job:

    jobs/<name>/    request.json, state.json, log.txt, supervisor.txt, supervisor.lock, opt/ml/ (the container)

The locks of cores and GPUs, and the queue of waiting jobs, are in a folder that all jobs of the machine share:
`state.home`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from state.home import SLOTS_VARIABLE, check_compile_cache, slots_folder
from state.own_process import own_process
from training.contract.errors import InputError, JobExists, ServiceError
from training.contract.failures import Failure
from training.contract.service import TERMINAL_STATUSES, Request
from training.job.processes.ranks import CACHE_VARIABLE
from training.services.local import slots, supervisor
from training.services.local.traits import TRAITS
from training.services.supervision import processes
from training.services.supervision.disk import FULL_ERRORS, full_reason, is_full, names_full_disk
from training.services.supervision.folder_service import FolderService, check_program
from training.services.supervision.job_folder import (
    JobFolder,
    State,
    failure_fields,
    with_billing,
    with_transition,
)

ABANDONED = Failure("Killed", "the job's supervisor is gone; it was killed or the machine was restarted.")


class LocalService(FolderService):
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
        super().__init__(root)
        self._slots = slots

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

    def stop(self, job_name: str) -> None:
        folder = self._job(job_name)
        state = self._state(folder)
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

    def _state(self, folder: JobFolder) -> State:
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


def check_request(request: Request) -> None:
    """Raise InputError for a request that cannot run here. The message states the field, its value and the rule."""
    resources = request["ResourceConfig"]
    if resources["InstanceCount"] != 1:
        raise InputError(f"instance_count is {resources['InstanceCount']}; it must be 1 on the local service.")
    check_program(request)
    slots.requested_cores(request.get("Environment", {}))
