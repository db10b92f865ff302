"""A training service on a Slurm cluster that accepts SageMaker's requests and returns SageMaker's descriptions.

Each job has a folder on a file system that its nodes share, as on the service of one machine; see `folder_service`.
There `allocation.py` writes the state, which is the truth about outcome and billed seconds. Slurm queues and places
jobs, and says whether they are still alive.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from state.locks import exclusive_lock
from training.contract.errors import InputError, JobExists, QuotaError, ServiceError, Unreachable
from training.contract.failures import OTHER, Failure
from training.contract.retry import RetryPolicy
from training.contract.service import TERMINAL_STATUSES, Request
from training.services.slurm import commands
from training.services.slurm.allocation import JOB_ID, STOP, claim, is_stopped
from training.services.slurm.commands import Listed
from training.services.slurm.traits import TRAITS
from training.services.supervision.disk import FULL_ERRORS, full_reason
from training.services.supervision.folder_service import FolderService, check_program
from training.services.supervision.job_folder import (
    JobFolder,
    State,
    failure_fields,
    first_state,
    with_billing,
    with_transition,
)

LISTING_SECONDS = 5.0
"""Age up to which a list of Slurm's jobs is used again, so that a launcher asks the controller rarely."""
LOST_SECONDS = 120.0
"""Time after a submission within which Slurm lists every job, also one that has ended (its MinJobAge is 300 s)."""
CLASSES = {"OUT_OF_MEMORY": "OutOfMemory", "NODE_FAIL": "Killed", "BOOT_FAIL": "Killed", "PREEMPTED": "Killed"}
"""Slurm's states of an ended job to the class of the failure."""


class SlurmService(FolderService):
    """Service for jobs in allocations of Slurm.

    A request's Environment may also contain the fields of the experiment's section `slurm` (`FIELDS_VARIABLE`), and
    TRAINFARE_CORES, TRAINFARE_MEMORY_GIB and TRAINFARE_STOP_GRACE_SECONDS. A description also contains
    `BillableSecondsExact` (float).
    """

    traits, name = TRAITS, TRAITS.name
    pauses_seconds = (0.2, 2.0)
    log_delay_seconds = longest_delay_seconds = 0.0
    jobs_command = "trainfare jobs --service slurm"
    settling_seconds = 30.0
    """Time within which the last state of an ended job is visible on a shared file system."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._listing: dict[str, Listed] = {}
        self._listed_at = 0.0
        """Time of the listing in seconds since the epoch."""
        self._retry = RetryPolicy(first_pause_seconds=1.0, total_seconds=10.0)

    def create(self, request: Request) -> None:
        """Submit the job. If the name is taken, raises `JobExists`. Raises QuotaError if Slurm takes no job now.

        A launcher that was killed before it noted the id of the submitted job leaves a folder without one. The next
        launcher finds the job by its name, or submits it.
        """
        check_program(request)
        folder = JobFolder(self._path(request["TrainingJobName"]))
        try:
            folder.path.parent.mkdir(parents=True, exist_ok=True)
            with _submission_lock(folder) as lock:
                is_new = not folder.request_file.exists()
                if not is_new and (_id_of(folder) or folder.state()["TrainingJobStatus"] in TERMINAL_STATUSES):
                    raise JobExists(f"Job {folder.name} already exists in {folder.path.parent}.")
                if is_new:
                    _make_folder(folder, request)
                self._submit(folder, request, lock, is_new=is_new)
        except OSError as error:
            reason = full_reason(self._root) if error.errno in FULL_ERRORS else str(error)
            raise ServiceError(f"Job {folder.name} could not be started: {reason}.") from error

    def _submit(self, folder: JobFolder, request: Request, lock: int, *, is_new: bool) -> None:
        may_exist = not is_new

        def submit() -> str:
            nonlocal may_exist
            # A job that has ended belonged to a folder that was deleted.
            listed = [each for each in commands.listed_jobs() if not each.has_ended] if may_exist else []
            known, may_exist = [each.id for each in listed if each.folder == str(folder.path)], True
            return known[0] if known else commands.submit(request, folder.path, lock)

        try:
            job_id = self._retry.call(submit, is_transient=lambda error: isinstance(error, Unreachable))
        except InputError:
            if is_new:
                shutil.rmtree(folder.path)  # the job was never known to Slurm
            raise
        except Unreachable as error:  # the next call looks for the job first
            raise QuotaError(str(error), "controller", is_final=False, waits_for="Slurm's controller") from error
        claim(folder, job_id)
        # It is taken for alive until the next list: a list for each new job would burden the controller.
        entry = Listed(id=job_id, folder=str(folder.path), state="RUNNING", started=None, ended=None, reason="None")
        self._listing[job_id] = entry

    def stop(self, job_name: str) -> None:
        folder = self._job(job_name)
        if self._state(folder)["TrainingJobStatus"] in TERMINAL_STATUSES:
            return
        (folder.path / STOP).touch()
        if job_id := _id_of(folder):
            self._retry.call(lambda: commands.stop(job_id), is_transient=lambda error: isinstance(error, Unreachable))
            self._listed_at = 0.0

    def _state(self, folder: JobFolder) -> State:
        """Return the state now. While Slurm does not answer, it is the last known one."""
        state, job_id = folder.state(), _id_of(folder)
        if state["TrainingJobStatus"] in TERMINAL_STATUSES or not job_id:
            return state
        try:
            listed = self._listed(job_id)
        except ServiceError:
            return state
        if listed and listed.is_waiting and state["LastModifiedTime"] < self._listed_at:
            return _waiting(folder, state, listed)
        if listed and not listed.has_ended:
            return state
        if not listed and "TrainingStartTime" in state and time.time() - folder.last_sign() < LOST_SECONDS:
            return state  # its supervisor still writes
        if not listed and "TrainingStartTime" not in state and self._submit_again(folder, job_id):
            return state
        state = folder.state()  # it may have ended between the two looks
        never_began = listed and listed.state == "CANCELLED" and "TrainingStartTime" not in state
        is_fresh = listed and not never_began and time.time() - (listed.ended or 0.0) < self.settling_seconds
        if state["TrainingJobStatus"] in TERMINAL_STATUSES or is_fresh:
            return state
        return _concluded(folder, state, listed, job_id)

    def _submit_again(self, folder: JobFolder, job_id: str) -> bool:
        """Submit a job that Slurm forgot before it was started: a controller that dies forgets the newest jobs.

        Return False for a job that was submitted too long ago: somebody may have canceled it.
        """
        noted = folder.path / JOB_ID
        with _submission_lock(folder) as lock:
            if _id_of(folder) == job_id:
                if time.time() - folder.state()["CreationTime"] > LOST_SECONDS:
                    return False
                noted.unlink()
                self._submit(folder, folder.request(), lock, is_new=False)
        return True

    def _listed(self, job_id: str) -> Listed | None:
        """Return Slurm's entry of the job. A job that is missing was looked for after its submission."""
        if time.time() - self._listed_at > LISTING_SECONDS or job_id not in self._listing:
            self._listed_at = time.time()
            self._listing = {each.id: each for each in commands.listed_jobs()}
        return self._listing.get(job_id)


@contextmanager
def _submission_lock(folder: JobFolder) -> Iterator[int]:
    """Keep other launchers from submitting. The process of `sbatch` keeps the lock, too, if this one is killed."""
    lock = exclusive_lock(folder.path.parent / ".submission.lock", wait=True)
    try:
        yield lock
    finally:
        os.close(lock)


def _make_folder(folder: JobFolder, request: Request) -> None:
    # A folder whose name starts with a full stop is never a job, even if this process is killed.
    staged = JobFolder(Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.path.parent)))
    staged.request_file.write_text(json.dumps(request))
    staged.write_state(first_state(0))
    staged.path.rename(folder.path)


def _id_of(folder: JobFolder) -> str:
    try:
        return (folder.path / JOB_ID).read_text()
    except FileNotFoundError:
        return ""


def _waiting(folder: JobFolder, state: State, listed: Listed) -> State:
    """Return the state of a job that is in the queue, for the first time or again."""
    status = "Restarting" if "TrainingStartTime" in state else "Pending"
    reason = f" ({listed.reason})" if listed.reason != "None" else ""
    return with_transition(state, status, f"Waiting for Slurm{reason}", folder.last_sign())


def _concluded(folder: JobFolder, state: State, listed: Listed | None, job_id: str) -> State:
    """Write and return the final state of a job whose supervisor did not write it."""
    end = folder.last_sign()  # Slurm's end of a job that was canceled in the queue is later than that of its attempts
    state = with_billing(state, end)
    kind = listed.state if listed else ""
    if kind == "CANCELLED" or is_stopped(folder):
        state = with_transition(state, "Stopped", "Training job stopped", end)
    elif kind in ("TIMEOUT", "DEADLINE"):
        state = with_transition(state, "MaxRuntimeExceeded", "Training job reached its limit in Slurm", end)
    else:
        failure = _failure(folder, kind, job_id)
        failed = with_transition(state, "Failed", "Training job failed", end)
        state = failed | failure_fields(failure, f"InternalServerError: {failure.failure_class}: {failure.message}")
    folder.write_final_state(state)
    return state


def _failure(folder: JobFolder, kind: str, job_id: str) -> Failure:
    if not kind:
        return Failure("Vanished", f"Slurm no longer knows job {job_id}, and its supervisor wrote no result.")
    words, output = commands.exit_text(job_id), folder.path / "supervisor.txt"
    printed = output.read_text(errors="replace").strip().splitlines()[-1:] if output.exists() else []
    said = f" ({words})" if words else ""
    if f"ExitCode={commands.UNREADABLE}:" in words or "ExitCode=0:53" in words:
        reason = "".join(printed) or f"the node cannot write to {folder.path}"
        return Failure(
            OTHER,
            f"{reason}{said}: put TRAINFARE_HOME, trainfare and its Python on file systems that all nodes share, or "
            "set slurm.python.",
        )
    last = f" The last line of {output}: {''.join(printed)}" if printed else ""
    return Failure(CLASSES.get(kind, "Killed"), f"Slurm ended job {job_id}: {words or kind}.{last}")
