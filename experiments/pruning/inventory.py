"""Inventory of the local state: folders that can be deleted, and the local jobs that may need them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from training.contract.errors import ServiceError
from training.contract.job_spec import JOB_NAME_PATTERN
from training.contract.service import TERMINAL_STATUSES
from training.services.local.job_folder import JobFolder
from training.services.local.service import LocalService
from training.state.deletion import TRASH_PREFIX, measure

FolderKind = Literal["jobs", "checkpoints", "outputs", "staged", "sources", "environments", "models"]
"""Kinds of folders, which are also the names of their parents in the state folder. By job name: work folders,
checkpoints and model artifacts (`outputs`). By content hash: staged data, copies of scripts and environments with their
requirements. By the id of the MLflow model or run: fetched models."""
JOB_FOLDERS = frozenset({"jobs", "checkpoints", "outputs"})

KEY_PATTERN = r"(m-)?[0-9a-f]{32,64}"
"""Pattern of a hash, or of an MLflow id."""
UNFINISHED = {
    "jobs": r"\.[a-zA-Z0-9-]+-[a-z0-9_]{8}",  # as `tempfile.mkdtemp` names it
    "staged": r"\.unfinished-[0-9a-f]{32}",
    "sources": r"\.unfinished-[0-9a-f]{32}",
    "environments": r"\.unfinished-[0-9a-f]{32}",
    "models": r"\.unfinished-[0-9a-f]{32}",
}
"""Patterns of temporary names, by kind. A folder gets its final name once it is complete."""
ABANDONED_SECONDS = 86_400.0
"""Age at which a folder with a temporary name counts as left behind by a process that was killed."""

COPIED_FILES = frozenset({"events.jsonl"})
"""Files that our own job writes to its output folder; its log contains the same lines."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder that may be deleted as a whole."""

    kind: FolderKind
    name: str
    """Name of the job, or hash or id of the content."""
    path: Path
    size_bytes: int
    """Total size of its files, without the targets of links."""
    changed: float
    """Time of the latest change in it, in seconds since the epoch."""
    is_leftover: bool = False
    """True if a process that was killed left it incomplete."""


@dataclass(frozen=True, kw_only=True)
class LocalJob:
    """A job of the local service."""

    name: str
    has_ended: bool
    """True if its status is final and its supervisor has exited."""
    request: str
    """Text of its request, which names everything that it reads and writes."""
    wrote_output: bool = False
    """True if its script wrote files to the output folder. These files have no other copy."""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """The jobs of a state folder and the folders in it."""

    folders: tuple[Folder, ...]
    jobs: Mapping[str, LocalJob]
    """Jobs by name."""
    unreadable: frozenset[str] = frozenset()
    """Names of work folders whose job cannot be read: another user owns it, or it is corrupt."""
    links: tuple[Path, ...] = ()
    """Symbolic links, which are kept together with their targets."""


def inventory(home: Path, now: float) -> Inventory:
    """List a state folder. Its path must not contain symbolic links; `now` is in seconds since the epoch."""
    links: list[Path] = []
    folders = tuple(folder for kind in get_args(FolderKind) for folder in _folders(home, kind, now, links))
    jobs = _jobs(home)
    return Inventory(
        folders=folders,
        jobs={name: job for name, job in jobs.items() if job},
        unreadable=frozenset(name for name, job in jobs.items() if job is None),
        links=tuple(links),
    )


def _folders(home: Path, kind: FolderKind, now: float, links: list[Path]) -> Iterator[Folder]:
    """Yield the folders of a kind, and append symbolic links to `links`."""
    parent = home / kind
    if parent.is_symlink():
        links.append(parent)
    elif parent.is_dir():
        for path in sorted(parent.iterdir()):
            if path.is_symlink():
                links.append(path)
            elif path.is_dir() and (folder := _folder(kind, path, now)):
                yield folder


def _folder(kind: FolderKind, path: Path, now: float) -> Folder | None:
    """Return a folder with its size, or None if this tool did not create it or it is being written."""
    pattern = JOB_NAME_PATTERN if kind in JOB_FOLDERS else KEY_PATTERN
    is_trash, is_whole = path.name.startswith(TRASH_PREFIX), re.fullmatch(pattern, path.name) is not None
    if not (is_trash or is_whole or re.fullmatch(UNFINISHED.get(kind, "(?!)"), path.name)):
        return None
    try:
        size_bytes, changed = measure(path)
    except FileNotFoundError:  # another prune has deleted it
        return None
    if not is_trash and not is_whole and now - changed < ABANDONED_SECONDS:
        return None
    return Folder(
        kind=kind,
        name=path.name,
        path=path,
        size_bytes=size_bytes,
        changed=changed,
        is_leftover=not is_whole,
    )


def _jobs(home: Path) -> dict[str, LocalJob | None]:
    service = LocalService(home)
    paths = [path for path in (home / "jobs").glob("[!.]*") if path.is_dir()]
    return {path.name: _job(service, JobFolder(path)) for path in paths}


def _job(service: LocalService, folder: JobFolder) -> LocalJob | None:
    """Return a job, or None if its state cannot be read."""
    try:
        folder.state()  # the service describes a damaged job as failed, but this one may still be running
        status = service.describe(folder.name)["TrainingJobStatus"]
        return LocalJob(
            name=folder.name,
            has_ended=status in TERMINAL_STATUSES and not folder.is_supervised(),
            request=json.dumps(folder.request()),
            wrote_output=_wrote_output(folder),
        )
    except (OSError, ValueError, TypeError, LookupError, ServiceError):
        return None


def _wrote_output(folder: JobFolder) -> bool:
    return any(path.name not in COPIED_FILES for path in (folder.base / "output" / "data").glob("*"))
