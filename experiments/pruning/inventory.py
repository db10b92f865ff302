"""What of the state lies on this machine: folders that may go one day, and the local jobs that may still need them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from training.contract.errors import ServiceError
from training.contract.job_spec import JOB_NAME_PATTERN
from training.contract.service import TERMINAL_STATUSES
from training.services.local.job_folder import JobFolder
from training.services.local.service import LocalService
from training.state.deletion import TRASH

Place = Literal["jobs", "checkpoints", "outputs", "staged", "sources", "models"]
"""Folder of the state: work folders of jobs, their checkpoints and model artifacts, by job name; staged data and copies
of scripts, by the hash of what they hold; fetched models, by the id of the MLflow model or run."""
OF_JOBS = frozenset({"jobs", "checkpoints", "outputs"})

KEY_PATTERN = r"(m-)?[0-9a-f]{32,64}"
"""Of a hash, or of an id of MLflow's."""
UNFINISHED = {
    "jobs": r"\.[a-zA-Z0-9-]+-[a-z0-9_]{8}",  # as `tempfile.mkdtemp` names it
    "staged": r"\.unfinished-[0-9a-f]{32}",
    "sources": r"\.unfinished-[0-9a-f]{32}",
    "models": r"\.unfinished-[0-9a-f]{32}",
}
"""How a folder is called in each place while it is made; it gets its name once it is whole."""
ABANDONED_SECONDS = 86_400.0
"""Age at which a folder that is still being made counts as left behind by a process that was killed."""

TOLD_ANYHOW = frozenset({"events.jsonl"})
"""What our own job writes to its output folder: its log says the same."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder that may be deleted as a whole."""

    place: Place
    name: str
    """Of the job, or the hash or id."""
    path: Path
    size_bytes: int
    """Of the files in it; what links lead to is not counted."""
    changed: float
    """When anything in it last changed, seconds since the epoch."""
    is_left_over: bool = False
    """Whether it was left half made, or half deleted, by a process that was killed."""


@dataclass(frozen=True, kw_only=True)
class LocalJob:
    """A job of the local service."""

    name: str
    has_ended: bool
    """Whether its service says so and its supervisor is gone."""
    request: str
    """Text of its request, in which stand the names of all that it reads and writes."""
    wrote_output: bool = False
    """Whether its script wrote files to its output folder, which are nowhere else."""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """All that was found."""

    folders: tuple[Folder, ...]
    jobs: Mapping[str, LocalJob]
    """By name."""
    unreadable: frozenset[str] = frozenset()
    """Names of work folders whose job cannot be read: another user's, or broken."""
    links: tuple[Path, ...] = ()
    """Places and folders that are symbolic links, which are left alone with all they lead to."""


def inventory(home: Path, now: float) -> Inventory:
    """Return what lies in a state folder, whose path holds no link; `now` in seconds since the epoch."""
    links: list[Path] = []
    folders = tuple(folder for place in get_args(Place) for folder in _folders(home, place, now, links))
    jobs = _jobs(home)
    return Inventory(
        folders=folders,
        jobs={name: job for name, job in jobs.items() if job},
        unreadable=frozenset(name for name, job in jobs.items() if job is None),
        links=tuple(links),
    )


def _folders(home: Path, place: Place, now: float, links: list[Path]) -> Iterator[Folder]:
    """Yield the folders of a place, and note links."""
    parent = home / place
    if parent.is_symlink():
        links.append(parent)
    elif parent.is_dir():
        for path in sorted(parent.iterdir()):
            if path.is_symlink():
                links.append(path)
            elif path.is_dir() and (folder := _folder(place, path, now)):
                yield folder


def _folder(place: Place, path: Path, now: float) -> Folder | None:
    """Return a folder with its size, or None of one that is none of ours or is just being made."""
    pattern = JOB_NAME_PATTERN if place in OF_JOBS else KEY_PATTERN
    is_trash, is_whole = path.name.startswith(TRASH), re.fullmatch(pattern, path.name) is not None
    if not (is_trash or is_whole or re.fullmatch(UNFINISHED.get(place, "(?!)"), path.name)):
        return None
    try:
        size_bytes, changed = measured(path)
    except FileNotFoundError:  # another prune is at it
        return None
    if not is_trash and not is_whole and now - changed < ABANDONED_SECONDS:
        return None
    return Folder(
        place=place,
        name=path.name,
        path=path,
        size_bytes=size_bytes,
        changed=changed,
        is_left_over=not is_whole,
    )


def measured(folder: Path) -> tuple[int, float]:
    """Return the bytes of a folder's files and when anything in it last changed, seconds since the epoch.

    Links are not followed. What goes meanwhile, or cannot be read, does not count. Raises FileNotFoundError.
    """
    size_bytes, changed = 0, folder.lstat().st_mtime
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            try:
                found = os.lstat(os.path.join(place, name))  # noqa: PTH118 - of many thousands of files
            except OSError:
                continue
            changed = max(changed, found.st_mtime)
            size_bytes += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return size_bytes, changed


def _jobs(home: Path) -> dict[str, LocalJob | None]:
    service = LocalService(home)
    paths = [path for path in (home / "jobs").glob("[!.]*") if path.is_dir()]
    return {path.name: _job(service, JobFolder(path)) for path in paths}


def _job(service: LocalService, folder: JobFolder) -> LocalJob | None:
    """Return a job, or None where its state cannot be read."""
    try:
        status = service.describe(folder.name)["TrainingJobStatus"]
        return LocalJob(
            name=folder.name,
            has_ended=status in TERMINAL_STATUSES and not folder.is_supervised(),
            request=folder.request_file.read_text("utf-8"),
            wrote_output=_wrote_output(folder),
        )
    except (OSError, ValueError, TypeError, LookupError, ServiceError):
        return None


def _wrote_output(folder: JobFolder) -> bool:
    return any(path.name not in TOLD_ANYHOW for path in (folder.base / "output" / "data").glob("*"))
