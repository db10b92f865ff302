"""The process that runs one job in its allocation: `python -m training.services.slurm.allocation FOLDER`.

Slurm starts it on the first node, and again after a preemption, a requeue or the loss of a node. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from training.contract.errors import TrainfareError
from training.contract.service import TERMINAL_STATUSES, Request
from training.services.slurm.commands import PYTHONPATH, listed_jobs
from training.services.supervision.job_folder import ALIVE_SECONDS, JobFolder, Record
from training.services.supervision.supervise import Place, supervise_safely

JOB_ID, STOP = "slurm-id", "stop"
"""Files of a job's folder: the id that Slurm gave it, and the request to stop it."""
ATTEMPT = "slurm-attempt"
"""File with the id and the number of the attempt that owns the job's folder."""
SRUN = """
trap 'ours=1; scancel --signal=TERM "$SLURM_JOB_ID"' TERM
setsid srun "$@" & wait $!; code=$?
while kill -0 $! 2>/dev/null; do wait $!; code=$?; done
[ -z "$ours" ] && [ -e .terminated ] && sleep 600
exit $code
"""
"""Script that runs `srun`. That would kill its tasks if it got SIGTERM, so the tasks get it instead.

A preemption may send it to the tasks alone, and ends the allocation later."""
LEAVING_SECONDS = 600
"""Time for which a lost attempt waits for Slurm to end it: with an end of its own, Slurm would not start it again."""


def main(path: str) -> int:
    started = allocation_start(os.environ["SLURM_JOB_ID"])
    # Blocked signals stay pending until the code waits for them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    folder = JobFolder(Path(path))
    if claim(folder, os.environ["SLURM_JOB_ID"]):
        return 0  # another allocation has the job
    attempt = f"{os.environ['SLURM_JOB_ID']}.{os.environ.get('SLURM_RESTART_COUNT', 0)}"
    (folder.path / ATTEMPT).write_text(attempt)
    if folder.state()["SecondaryStatus"] in ("Downloading", "Training", "Stopping", "Uploading"):
        time.sleep(2 * ALIVE_SECONDS)  # a node that Slurm lost may still run the attempt before, which reads the file
    record = Record(folder)
    if folder.state()["TrainingJobStatus"] in TERMINAL_STATUSES:
        return 0
    if record.began:
        record.restart(folder.last_sign(), started)
        _remove_container(folder)
    folder.reserve()

    def place(request: Request) -> Place | None:
        if is_stopped(folder):
            return None
        place = place_of(os.environ, started)
        # A node that Slurm took for lost may still run its attempt beside the next one.
        owns = partial(_is_ours, folder, attempt)
        return replace(place, was_stopped=partial(is_stopped, folder), is_ours=owns)

    supervise_safely(folder, record, place)
    if folder.state()["SecondaryStatus"] == "Interrupted":
        time.sleep(LEAVING_SECONDS)
    return int(folder.state()["TrainingJobStatus"] == "Failed")


def claim(folder: JobFolder, job_id: str) -> str:
    """Note the job's id if none is noted. Return the id of another job that is noted, or an empty text."""
    own = folder.path / f".{JOB_ID}-{job_id}"
    own.write_text(job_id)
    try:
        os.link(own, folder.path / JOB_ID)  # in one step, so that no reader sees an empty file
    except FileExistsError:
        noted = (folder.path / JOB_ID).read_text()
        return noted if noted != job_id else ""
    finally:
        own.unlink()
    return ""


def is_stopped(folder: JobFolder) -> bool:
    """Return whether somebody stopped the job with trainfare."""
    return STOP in os.listdir(folder.path)  # noqa: PTH208 - asks the server, unlike a look for a file on NFS


def _is_ours(folder: JobFolder, attempt: str) -> bool:
    """Return whether no later attempt owns the folder. Stop the job if the signal did not arrive: it was suspended."""
    with contextlib.suppress(OSError):
        if is_stopped(folder):
            os.kill(os.getpid(), signal.SIGTERM)
        return (folder.path / ATTEMPT).read_text() == attempt
    return True


def allocation_start(job_id: str) -> float:
    """Return the start of the allocation in seconds since the epoch; now, if this node cannot ask Slurm."""
    now = time.time()
    with contextlib.suppress(TrainfareError):
        starts = [each.started for each in listed_jobs() if each.id == job_id and each.started]
        return min([now, *starts])
    return now


def place_of(variables: Mapping[str, str], started: float) -> Place:
    """Return what the job has of its nodes. `variables` are those of the allocation's script, after the prologue."""
    nodes = int(variables.get("SLURM_JOB_NUM_NODES", 1))
    gpus = tuple(filter(None, variables.get("CUDA_VISIBLE_DEVICES", "").split(",")))
    # A library that sees Slurm's variables would take a job of one process for one of several tasks. `srun` needs them.
    hidden = ("TRAINFARE_", "PYTHONPATH", *(() if nodes > 1 else ("SLURM", "SRUN_", "SBATCH_")))
    own = {"PYTHONPATH": path} if (path := variables.get(PYTHONPATH)) else {}
    return Place(
        cpus=int(variables["SLURM_CPUS_ON_NODE"]),
        gpus=gpus,
        since=started,
        variables={name: value for name, value in variables.items() if not name.startswith(hidden)} | own,
        command=partial(on_all_nodes, variables, nodes) if nodes > 1 else list,
    )


def on_all_nodes(variables: Mapping[str, str], nodes: int, command: list[str]) -> list[str]:
    """Return the command that starts `command`, which is torchrun's for one machine, on each node of the allocation."""
    job_id = variables["SLURM_JOB_ID"]
    port = 20_000 + int(job_id) % 10_000  # other jobs of a node have other ids
    meeting = f"--nnodes={nodes} --rdzv-backend=c10d --rdzv-id={job_id} --rdzv-endpoint={socket.gethostname()}:{port}"
    words = [part for word in command for part in (meeting.split() if word == "--standalone" else [word])]
    # SM_CURRENT_HOST is for scripts that name their host; torchrun's own variables tell which process each one is.
    # torchrun ends with 1 after SIGTERM, for which srun would kill the nodes that are still saving.
    # The toolkit's interface is the loopback, over which nodes do not meet.
    trap = 'unset SM_NETWORK_INTERFACE_NAME; trap "stopped=0; : > .terminated" TERM'
    task = trap + '; SM_CURRENT_HOST=$SLURMD_NODENAME "$@"; code=$?; exit ${stopped:-$code}'
    named = ["/bin/sh", "-c", task, "sh", *words]
    each = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=1", "--export=ALL"]
    return ["/bin/sh", "-c", SRUN, "sh", *each, f"--cpus-per-task={variables['SLURM_CPUS_ON_NODE']}", *named]


def _remove_container(folder: JobFolder) -> None:
    """Remove the container's folders, as a new instance has none. Checkpoints stay, in a folder or behind a link."""
    for path in folder.base.iterdir() if folder.base.is_dir() else ():
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        elif path.name != "checkpoints":
            shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
