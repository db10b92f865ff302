"""Assign this machine's GPUs and cores to jobs: one lock file each, and a first-come, first-served queue.

A lock is a flock on an open file. The kernel releases it when its holder exits, so a killed supervisor frees the cores.
A job's script does not inherit the locks: a process that it leaves behind must not keep them. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from state.locks import exclusive_lock, is_exclusively_locked
from training.contract.errors import InputError
from training.services.supervision.supervise import CORES_VARIABLE

POLL_SECONDS = 0.1
MAX_NAME_BYTES = 63
JOB_NAME_PATTERN = r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"
"""Names of jobs, see `training.contract.job_spec`, which needs packages."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """GPUs and cores of this machine."""

    gpus: tuple[str, ...]
    """Values for CUDA_VISIBLE_DEVICES, one for each GPU or MIG slice."""
    cores: tuple[int, ...]
    """Numbers of the cores that this process may run on."""


@dataclass(frozen=True, kw_only=True)
class SlotRequest:
    """Numbers of GPUs and cores that a job needs."""

    gpus: int
    cores: int


@dataclass(frozen=True, kw_only=True)
class Slot:
    """GPUs and cores that a job holds."""

    gpus: tuple[str, ...]
    cores: tuple[int, ...]
    """Numbers of the cores; empty for any core."""
    locks: tuple[int, ...]
    """File descriptors that hold the locks."""


def machine(environment: Mapping[str, str]) -> Machine:
    """Return the GPUs and cores that a job with this environment may use.

    CUDA_VISIBLE_DEVICES limits the GPUs. It is read from the job's environment, or else from this process.
    """
    cores = tuple(sorted(os.sched_getaffinity(0)))
    visible = environment.get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    if visible is not None:
        return Machine(gpus=tuple(gpu.strip() for gpu in visible.split(",") if gpu.strip()), cores=cores)
    return Machine(gpus=gpu_names(gpu_listing()), cores=cores)


def gpu_listing() -> str:
    if shutil.which("nvidia-smi") is None:
        return ""
    return subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=False).stdout


def gpu_names(listing: str) -> tuple[str, ...]:
    """Return the GPUs in the output of `nvidia-smi --list-gpus`: their numbers, or the UUIDs of their MIG slices."""
    names: list[str] = []
    for block in re.split(r"^(?=GPU \d+:)", listing, flags=re.MULTILINE):
        if match := re.match(r"GPU (\d+):", block):
            names += re.findall(r"\(UUID: (MIG-[^)]+)\)", block) or [match.group(1)]
    return tuple(names)


def used_device(gpus: int, listing: str, torch: str, has_cuda: bool) -> str:
    """Return what jobs train on here, by the output of `nvidia-smi --list-gpus` and the version and build of torch."""
    name = ", ".join(dict.fromkeys(re.findall(r"^GPU \d+: (.+?)(?: \(UUID.*)?$", listing, re.MULTILINE)))
    card = f"{gpus} x {name}" if gpus > 1 else name
    if not gpus:
        return f"CPU: {len(os.sched_getaffinity(0))} cores, PyTorch {torch}"
    if has_cuda:
        return f"Using {card}, CUDA build of PyTorch {torch}"
    problem = f"This machine has {card}, but PyTorch {torch} is built without CUDA, so jobs train on the CPU"
    return f"{problem}: install the build for GPUs with `make clean setup`"


def requested_cores(environment: Mapping[str, str]) -> int | None:
    """Return the number of cores that the job requests, or None if it does not request any. Raises InputError."""
    text = environment.get(CORES_VARIABLE)
    if text is None:
        return None
    available = len(os.sched_getaffinity(0))
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= available:
        raise InputError(
            f"{CORES_VARIABLE} is '{text}'; it must be a whole number from 1 to {available}, the number of cores here."
        )
    return int(text)


def slot_request(environment: Mapping[str, str], processes: int, machine: Machine) -> SlotRequest:
    """Return the GPUs and cores that a job with this many processes needs.

    On a machine with GPUs, each process needs one GPU. Otherwise it needs cores, by default all. Raises InputError.
    """
    cores = requested_cores(environment)
    if not machine.gpus:
        return SlotRequest(gpus=0, cores=cores or len(machine.cores))
    if processes > len(machine.gpus):
        raise InputError(f"The job requires {processes} devices, but this machine has {len(machine.gpus)}.")
    return SlotRequest(gpus=processes, cores=cores or 0)


def wait_for_slot(
    root: Path, request: SlotRequest, machine: Machine, holder: str, pause: Callable[[float, str], bool]
) -> Slot | None:
    """Wait in order of arrival until a slot is free, and return it, or None if the job was stopped meanwhile.

    `holder` is the job's name, which jobs that wait for its slot report. `pause(seconds, waits_for)` waits and returns
    whether the job was stopped.
    """
    root.mkdir(parents=True, exist_ok=True)
    with _ticket(root / "queue") as ticket:
        while True:
            earlier = [other for other in ticket.parent.glob("[0-9]*") if other.name < ticket.name]
            ahead = sum(not _is_abandoned(other) for other in earlier)
            slot = (
                shortage(request, f"jobs ahead of it: {ahead}") if ahead else _try_slot(root, request, machine, holder)
            )
            if isinstance(slot, Slot):
                return slot
            if pause(POLL_SECONDS, slot):
                return None


def shortage(request: SlotRequest, reason: str) -> str:
    """Return the resources that a job waits for, with the reason, such as `2 cores (1 of 2 free, used by demo-1)`."""
    counts = {"GPU": request.gpus, "core": request.cores}
    needed = " and ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items() if count)
    return f"{needed} ({reason})"


def _try_slot(root: Path, request: SlotRequest, machine: Machine, holder: str) -> Slot | str:
    gpu_names = [f"gpu-{gpu}" for gpu in machine.gpus]
    core_names = [f"core-{core}" for core in machine.cores]
    gpus = _lock_some(root, gpu_names, request.gpus)
    cores = _lock_some(root, core_names, request.cores)
    locks = (*gpus.values(), *cores.values())
    if len(locks) < request.gpus + request.cores:
        names, locked = (gpu_names, gpus) if len(gpus) < request.gpus else (core_names, cores)
        for lock in locks:
            os.close(lock)
        holders = _holders(root, [name for name in names if name not in locked])
        users = f", used by {', '.join(holders)}" if holders else ""
        return shortage(request, f"{len(locked)} of {len(names)} free{users}")
    for lock in locks:
        os.ftruncate(lock, 0)
        os.pwrite(lock, holder.encode(), 0)
    return Slot(
        gpus=tuple(gpu for gpu in machine.gpus if f"gpu-{gpu}" in gpus),
        cores=tuple(core for core in machine.cores if f"core-{core}" in cores),
        locks=locks,
    )


def _holders(root: Path, names: Iterable[str]) -> list[str]:
    """Return the jobs that hold some resources. Other users write these files too, so only names are returned."""
    holders: dict[str, None] = {}
    for name in names:
        with contextlib.suppress(OSError), (root / quote(name, safe="")).open("rb") as file:
            text = file.read(MAX_NAME_BYTES + 1).decode("ascii", "replace")
            if re.fullmatch(JOB_NAME_PATTERN, text):
                holders[text] = None
    return list(holders)


def _lock_some(root: Path, names: Iterable[str], count: int) -> dict[str, int]:
    """Lock up to `count` of the resources, and return their file descriptors by name."""
    descriptors: dict[str, int] = {}
    for name in names:
        if len(descriptors) == count:
            break
        lock = _try_lock(root / quote(name, safe=""))
        if lock is not None:
            descriptors[name] = lock
    return descriptors


def _try_lock(path: Path) -> int | None:
    try:
        return exclusive_lock(path, mode=0o666)  # other users lock it, too, if the folder lets them
    except BlockingIOError:
        return None


@contextlib.contextmanager
def _ticket(queue: Path) -> Iterator[Path]:
    """Create a locked file whose name sorts by time of arrival.

    The file is locked before it gets this name, so no other process ever sees it unlocked.
    """
    try:
        queue.mkdir()
        queue.chmod(queue.parent.stat().st_mode & 0o7777)  # other users wait in it, too, if the folder lets them
    except FileExistsError:
        if queue.is_symlink():
            raise InputError(f"{queue} is a link, which another user may have made: remove it.") from None
    unnamed = queue / f".{uuid.uuid4().hex}"
    lock = _try_lock(unnamed)
    ticket = queue / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}"
    unnamed.rename(ticket)
    try:
        yield ticket
    finally:
        ticket.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)


def _is_abandoned(ticket: Path) -> bool:
    try:
        if is_exclusively_locked(ticket):
            return False
    except FileNotFoundError:
        return True
    with contextlib.suppress(PermissionError):  # another user's
        ticket.unlink(missing_ok=True)
    return True
