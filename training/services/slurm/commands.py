"""Slurm's commands: submit, list, stop. Messages keep Slurm's own words."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from state.own_process import REPOSITORY
from training.contract.errors import InputError, QuotaError, ServiceError, Unreachable
from training.contract.service import FIELDS_VARIABLE, GRACE_VARIABLE, Request
from training.services.supervision import container
from training.services.supervision.supervise import CORES_VARIABLE, MEMORY_VARIABLE, STOP_GRACE_SECONDS, process_count

ALLOCATION = "training.services.slurm.allocation"
UPLOAD_SECONDS = 180
"""Seconds that an allocation lasts beyond the time limit of its job and the grace, to pack what the job saved."""
WARNING_SECONDS = 120
"""Slurm sends SIGTERM so long before the end of an allocation."""
TIMEOUT_SECONDS = 120
PYTHONPATH = "TRAINFARE_PYTHONPATH"
"""Variable with the PYTHONPATH of the job."""
UNREADABLE = 97
"""Exit code of an allocation whose node cannot read the job's folder or start Python."""
NO_NODES = "Requested node configuration is not available"
_NO_JOB = "Invalid job id specified"
_AWAY = re.compile(
    r"unable to contact slurm controller|connection refused|timed out|communication connection failure|try again|"
    r"zero bytes were transmitted|not responding|backup controller|shutdown|temporarily|authentication|munge|"
    r"unexpected message|configuration source",
    re.IGNORECASE,
)
_FULL = re.compile(r"MaxSubmit|MaxJobs|GrpSubmit|job submit limit", re.IGNORECASE)
_FORMAT = "%i|%T|%S|%e|%r|%Z"
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
_ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("REVOKED", "TIMEOUT"),
)


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A job as `squeue` lists it."""

    id: str
    folder: str
    """The job's folder, in which the allocation's script starts."""
    state: str
    """Slurm's state, such as PENDING, RUNNING or NODE_FAIL."""
    started: float | None
    """Start of the allocation in seconds since the epoch; for a waiting job, Slurm's guess."""
    ended: float | None
    reason: str
    """Reason why the job waits, in Slurm's word."""

    @property
    def is_waiting(self) -> bool:
        return self.state in _WAITING

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDED


def fields_of(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the experiment's section `slurm`, which travels in a job's environment."""
    return dict(json.loads(variables.get(FIELDS_VARIABLE, "{}")))


def options(request: Request) -> list[str]:
    """Return the options of `sbatch` that state what the job needs."""
    variables, resources = request.get("Environment", {}), request["ResourceConfig"]
    fields = fields_of(variables)
    limit_seconds = request["StoppingCondition"]["MaxRuntimeInSeconds"]
    limit_seconds += ceil(float(variables.get(GRACE_VARIABLE, STOP_GRACE_SECONDS))) + UPLOAD_SECONDS
    memory = variables.get(MEMORY_VARIABLE)
    count, gpu = process_count(request), fields.get("gpu")
    gpus = None if gpu is None else f"{count}" if gpu == "any" else f"{gpu}:{count}"
    named = {
        **{name: fields.get(name) for name in ("partition", "account", "qos", "constraint")},
        "gpus-per-node": gpus,
        "cpus-per-task": variables.get(CORES_VARIABLE),
        "mem": None if memory is None else f"{ceil(1024 * float(memory))}M",
        "time": ceil(limit_seconds / 60),
        "nodes": resources["InstanceCount"],
        "ntasks-per-node": 1,
    }
    return [*(f"--{name}={value}" for name, value in named.items() if value is not None), *fields.get("options", ())]


def submit(request: Request, folder: Path, lock: int) -> str:
    """Submit the job and return its id. The process of `sbatch` holds the lock, even if this one is killed."""
    arguments = [
        *("--parsable", "--requeue", f"--job-name={request['TrainingJobName']}", "--dependency=singleton"),
        # The shell becomes the supervisor, which gets the signal.
        *(f"--signal=B:TERM@{WARNING_SECONDS}", "--open-mode=append", f"--chdir={folder}"),
        f"--output={str(folder / 'supervisor.txt').replace('%', '%%')}",
        *options(request),
    ]
    # The allocation gets the variables of its submission, and Slurm stores them: so they are those of a container.
    own = {name: value for name, value in os.environ.items() if name.startswith(("SLURM_CONF", "SBATCH_"))}
    variables = container.inherited(request) | own
    answer = call("sbatch", *arguments, text=batch_script(request, folder), pass_fds=(lock,), variables=variables)
    return answer.strip().partition(";")[0]


def batch_script(request: Request, folder: Path) -> str:
    """Return the script of the allocation. A node that lacks the shared folders ends it with a sentence."""
    fields = fields_of(request.get("Environment", {}))
    python, place = fields.get("python") or sys.executable, shlex.quote(str(folder))
    needed = (
        f"test -r {place}/request.json && {shlex.quote(python)} -c 'import sys; assert sys.version_info >= (3, 10)'"
    )
    lines = [
        # A login shell knows `module`.
        *(["#!/bin/bash -l", "set -e", fields["prologue"], "set +e"] if "prologue" in fields else ["#!/bin/sh"]),
        f'{needed} || {{ echo "$(hostname) cannot read the job\'s folder or start its Python"; exit {UNREADABLE}; }}',
        f'export {PYTHONPATH}="${{PYTHONPATH-}}" PYTHONPATH={shlex.quote(str(REPOSITORY))}',
        f"exec {shlex.quote(python)} -P -m {ALLOCATION} {place}",
    ]
    return "\n".join(lines) + "\n"


def test_start(words: Sequence[str]) -> str:
    """Return what Slurm says about the start of a job with these options. Raises InputError if it refuses them.

    It says the same about nodes that do not exist and about nodes that are drained, for which a job waits.
    """
    try:
        return call("sbatch", "--test-only", *words, text="#!/bin/sh\n", takes_errors=True)
    except QuotaError as error:
        return str(error).rstrip(".")
    except InputError as error:
        if NO_NODES not in str(error):
            raise
        return f"The jobs wait, perhaps for ever: {NO_NODES}"


def listed_jobs() -> list[Listed]:
    """Return this user's jobs, with those that ended a short time ago. Raises Unreachable."""
    # Variables of squeue would hide jobs. Times are in seconds since the epoch.
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SQUEUE_", "SLURM_CLUSTERS"))}
    variables = own | {"SLURM_TIME_FORMAT": "%s"}
    lines = call("squeue", "--noheader", "--me", "--all", "--states=all", f"--format={_FORMAT}", variables=variables)
    jobs = []
    for line in (line for line in lines.splitlines() if line.count("|") >= 5):
        job_id, state, started, ended, reason, folder = line.split("|", 5)
        times = [float(text) if text.isdigit() else None for text in (started, ended)]
        jobs.append(Listed(id=job_id, folder=folder, state=state, started=times[0], ended=times[1], reason=reason))
    return jobs


def exit_text(job_id: str) -> str:
    """Return Slurm's state, reason and exit code of an ended job in its own words; empty if they are forgotten."""
    try:
        shown = call("scontrol", "show", "job", job_id, "--oneliner")
    except ServiceError:
        return ""
    return ", ".join(re.findall(r"\b(?:JobState|Reason|ExitCode)=\S+", shown))


def stop(job_id: str) -> None:
    """Cancel a waiting job, or send SIGTERM to the supervisor of a running one."""
    for words in (["--state=PENDING"], ["--state=RUNNING", "--batch", "--signal=TERM"]):
        try:
            call("scancel", *words, job_id)
        except ServiceError as error:
            if _NO_JOB not in str(error):  # it ends, and reads the request to stop if Slurm starts it again
                raise


def call(
    *command: str,
    text: str = "",
    pass_fds: Sequence[int] = (),
    variables: Mapping[str, str] = os.environ,
    takes_errors: bool = False,
) -> str:
    """Return what a command of Slurm prints. Raises InputError if Slurm refuses it, or Unreachable."""
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            check=False,
            pass_fds=pass_fds,
            env={**variables},
        )
    except FileNotFoundError as error:
        raise InputError(
            f"service 'slurm' needs the command {command[0]}, which is not on the PATH: run trainfare on a login "
            "node of the cluster."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"Slurm did not answer {command[0]} within {TIMEOUT_SECONDS} s.") from error
    prefix = re.compile(rf"{command[0]}: (error: )?(Batch job submission failed: )?|allocation failure: ")
    lines = [prefix.sub("", line).strip().rstrip(".") for line in done.stderr.splitlines()]
    words = "; ".join(dict.fromkeys(filter(None, lines)))
    if done.returncode == 0:
        return words if takes_errors else done.stdout
    if _AWAY.search(words):
        raise Unreachable(f"Slurm's controller does not answer: {words}.")
    words = words or f"it ended with {done.returncode}"
    if command[0] == "sbatch" and _FULL.search(words):
        waits_for = f"room in Slurm's queue ({words})"
        raise QuotaError(
            f"Slurm takes no more jobs now: {words}.", "submitted jobs", is_final=False, waits_for=waits_for
        )
    if command[0] == "sbatch":
        raise InputError(f"Slurm refuses the job: {words}. Change the fields of slurm or machine.")
    raise ServiceError(f"Slurm refuses {command[0]}: {words}.")
