"""The process that runs one local job: `python -m training.services.local.supervisor STAGED FOLDER`.

It outlives the process that started it. STAGED contains the request. Renaming STAGED to FOLDER creates the job, so a
job exists if and only if its supervisor has run. The supervisor prints `created` or `exists` on standard output;
standard error is a file in STAGED. Standard library only, so that it starts quickly.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import sys
from pathlib import Path

from state.home import slots_folder
from training.contract.service import Request
from training.services.local import slots
from training.services.supervision.job_folder import JobFolder, Record, first_state
from training.services.supervision.supervise import MEMORY_VARIABLE, Place, process_count, supervise_safely

CREATED = "created"
EXISTS = "exists"


def main(staged: str, final: str) -> None:
    if os.fork() > 0:
        os._exit(0)  # The caller waits only for this process. Its child continues; the caller need not reap it.
    # Blocked signals stay pending until the code waits for them, so no stop is lost and no handler interrupts the code.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    folder = JobFolder(Path(final))
    created = _create_job(JobFolder(Path(staged)), folder)
    _reply(CREATED if created else EXISTS)
    if created:
        _supervise(folder, Record(folder))


def _create_job(staged: JobFolder, final: JobFolder) -> bool:
    """Rename the staged folder to create the job. Return False if the job exists.

    The supervisor's lock is acquired first, so no other process sees the job unlocked.
    """
    staged.lock_for_supervisor()
    staged.reserve()
    staged.write_state(first_state(os.getpid()))
    try:
        staged.path.rename(final.path)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        shutil.rmtree(staged.path)
        return False
    return True


def _reply(word: str) -> None:
    """Send the reply to the caller, which may have died, and close the pipe on which it waits."""
    with contextlib.suppress(BrokenPipeError):
        os.write(1, word.encode())
    # Standard error is already a file in the job's folder.
    os.dup2(2, 1)


def _supervise(folder: JobFolder, record: Record) -> None:
    held = list[slots.Slot]()  # it keeps the locks

    def place(request: Request) -> Place | None:
        if (slot := _slot(folder, request, record)) is None:
            return None
        held.append(slot)
        memory_gib = request.get("Environment", {}).get(MEMORY_VARIABLE)
        memory_bytes = None if memory_gib is None else int(float(memory_gib) * 2**30)
        return Place(cpus=len(slot.cores), gpus=slot.gpus, pinned=slot.cores, memory_bytes=memory_bytes)

    supervise_safely(folder, record, place)


def _slot(folder: JobFolder, request: Request, record: Record) -> slots.Slot | None:
    variables = request.get("Environment", {})
    machine = slots.machine(variables)
    slot_request = slots.slot_request(variables, process_count(request), machine)

    def pause(seconds: float, waits_for: str) -> bool:
        record.wait(f"Waiting for {waits_for}")
        return signal.sigtimedwait({signal.SIGTERM}, seconds) is not None

    return slots.wait_for_slot(slots_folder(), slot_request, machine, folder.name, pause)


if __name__ == "__main__":
    main(*sys.argv[1:])
