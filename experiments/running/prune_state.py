"""Delete local state that nothing needs any more: the verb `jobs prune`.

It keeps everything that a running job or an open group may need, and what is younger than the age limit. Unless
everything is to go, it also keeps the only copy of a model or a result. Staged data, environments and fetched models
can always be made again.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from experiments.running.output import answer, confirm, has_terminal, print_error, print_line
from models.logged.log_model import MODEL_TAG, holds_model, mark_model_deleted
from state import locks
from state.folders import TRASH_PREFIX, delete, discard, measure
from state.home import home
from tracking.groups.plan_file import PLAN_FILE as PLAN
from tracking.queries.job_tables import has_ended, runs_where, tagged, tags_of
from tracking.server.store import Store, open_store
from training.contract.errors import ServiceError, TrackingError
from training.contract.job_spec import JOB_NAME_PATTERN
from training.contract.plain_text import counted
from training.contract.service import TERMINAL_STATUSES
from training.services.local.service import LocalService
from training.services.supervision.job_folder import JobFolder

JOB_KINDS = ("jobs", "checkpoints", "outputs")
"""Folders of the state folder whose entries belong to one job: work folders, checkpoints and artifacts."""
KINDS = (*JOB_KINDS, *locks.SHARED)
KEY_PATTERN = r"(m-)?[0-9a-f]{32,64}"
"""Pattern of the other names: a hash, or an MLflow id."""
UNFINISHED_PATTERN = r"\.unfinished-[0-9a-f]{32}|\.[a-zA-Z0-9-]+-[a-z0-9_]{8}"
"""Pattern of temporary names. The second one is `tempfile.mkdtemp`'s, for the work folder of a job."""
ABANDONED_SECONDS = 86_400.0
"""Age at which a folder with a temporary name counts as left behind by a process that was killed."""
COPIED_FILES = frozenset({"events.jsonl"})
"""Files that our own job writes to its output folder; its log contains the same lines."""
RETRY_SECONDS = 10.0
"""Time without an answer after which the tracking server counts as unreachable."""
NOTHING_DELETED = "Nothing was deleted."


@dataclass(frozen=True, kw_only=True)
class PruneOptions:
    """Options of `jobs prune`."""

    everything: bool = False
    """Delete the only copies of models and results too."""
    older_than_seconds: float = 7 * 86_400.0
    """Smallest age of a folder to delete."""
    group: str | None = None
    """Id of the only group whose jobs' folders are considered; None considers all folders."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder that may be deleted as a whole."""

    path: Path
    size_bytes: int
    """Total size of its files, without the targets of links."""
    changed: float
    """Time of the latest change in it, in seconds since the epoch."""
    kept: str = ""
    """Reason why it is kept; empty if it may be deleted."""
    runs: Sequence[Any] = ()

    @property
    def kind(self) -> str:
        return self.path.parent.name

    @property
    def name(self) -> str:
        """Name of the job, or hash or id of the content."""
        return self.path.name


@dataclass(frozen=True)
class _Need:
    """A running job or an open group: each may still need the folders of its jobs."""

    why: str
    text: str | None
    """Text that names all that it reads and writes; None if it cannot be read."""
    prefix: str
    """Start of the names of its own folders."""

    def includes(self, folder: Folder) -> bool:
        if folder.kind in JOB_KINDS:
            return f"{folder.name}-".startswith(self.prefix) or folder.name in (self.text or "")
        return self.text is None or folder.name in self.text


def prune(options: PruneOptions, *, is_confirmed: bool) -> int:
    """List the folders that can be deleted, and delete them once confirmed. Return 1 if that failed for one, or 0.

    Raises TrackingError if the tracking server does not answer.
    """
    root = home().resolve()
    for path in (path for kind in KINDS for path in (root / kind, *(root / kind).glob("*")) if path.is_symlink()):
        print_line(f"{path} is a symbolic link: it and its target are kept.")
    if not next(_folders(root), None):
        print_line(f"{root} contains nothing to prune.")
        return 0
    store = open_store(echo=print_line, retry_seconds=RETRY_SECONDS, otherwise=NOTHING_DELETED)
    print_line(f"Comparing {root} with the runs of {store.uri}")
    folders = select(root, store, options)
    deletable = [each for each in folders if not each.kept]
    answer({"deletable": _fields(deletable), "deleted": []})
    for each in deletable:
        days = max(0.0, time.time() - each.changed) / 86_400
        print_line(f"{each.path.relative_to(root)}  {decimal(each.size_bytes)}, {days:.1f} days old")
    print_line(f"{_count_and_size(deletable) if deletable else 'Nothing'} can be deleted.")
    for why in dict.fromkeys(each.kept for each in folders if each.kept):
        print_line(f"Kept {_count_and_size([each for each in folders if each.kept == why])}: {why}")
    if not deletable:
        return 0
    if not (is_confirmed or (has_terminal() and confirm(f"Delete {_count_and_size(deletable)}?"))):
        print_line(
            f"{NOTHING_DELETED}{'' if has_terminal() else ' Without a terminal, confirm the deletion with --yes.'}"
        )
        return 0
    deleted, errors = delete_selected(deletable, root, store, options)
    answer({"deletable": _fields(deletable), "deleted": _fields(deleted)})
    print_line(f"Deleted {_count_and_size(deleted)}." if deleted else NOTHING_DELETED)
    if kept := len(deletable) - len(deleted) - len(errors):
        print_line(f"Kept {kept}: another process started to use them, or another prune deleted them first.")
    for error in errors:
        print_error(f"error: {error}")
    return 1 if errors else 0


def _fields(folders: Sequence[Folder]) -> list[dict[str, Any]]:
    return [{"path": str(each.path), "bytes": each.size_bytes} for each in folders]


def _count_and_size(folders: Sequence[Folder]) -> str:
    return f"{counted(len(folders), 'folder')} ({decimal(sum(each.size_bytes for each in folders))})"


def select(root: Path, store: Store, options: PruneOptions) -> list[Folder]:
    """Return the folders of the state folder, largest first, each with the reason why it is kept, if it is.

    `root` must not contain symbolic links. Raises TrackingError.
    """
    folders = sorted(_folders(root), key=lambda each: -each.size_bytes)
    try:
        needs = [*_running_jobs(root), *_open_groups(store)]
        return [
            _with_decision(store, each, folders, needs, options)
            for each in folders
            if options.group is None or (each.kind in JOB_KINDS and each.name.startswith(f"{options.group}-"))
        ]
    except TrackingError as error:
        raise TrackingError(f"{str(error).rstrip('.')}. {NOTHING_DELETED}") from error


def _folders(root: Path) -> Iterator[Folder]:
    """Yield the folders that this tool created, without links and what is being written."""
    for kind in KINDS:
        pattern = JOB_NAME_PATTERN if kind in JOB_KINDS else KEY_PATTERN
        parent = root / kind
        for path in [] if parent.is_symlink() or not parent.is_dir() else sorted(parent.iterdir()):
            is_trash = path.name.startswith(TRASH_PREFIX)
            is_unfinished = re.fullmatch(UNFINISHED_PATTERN, path.name) and not is_trash
            is_ours = is_trash or is_unfinished or re.fullmatch(pattern, path.name)
            if path.is_symlink() or not path.is_dir() or not is_ours:
                continue
            try:
                size_bytes, changed = measure(path)
            except FileNotFoundError:  # another prune has deleted it
                continue
            if not (is_unfinished and time.time() - changed < ABANDONED_SECONDS):
                yield Folder(path=path, size_bytes=size_bytes, changed=changed)


def _running_jobs(root: Path) -> Iterator[_Need]:
    """Yield the local jobs that have not ended. A job's request names all that it reads."""
    for path in (path for path in (root / "jobs").glob("[!.]*") if path.is_dir()):
        folder = JobFolder(path)
        try:
            status = LocalService(root).describe(path.name)["TrainingJobStatus"]
            text = json.dumps(folder.request())
            if status not in TERMINAL_STATUSES or folder.is_supervised():
                yield _Need(f"job {path.name} has not ended", text, f"{path.name}-")
        except (OSError, ValueError, TypeError, LookupError, ServiceError):
            why = f"the state of job {path.name} cannot be read, so it is unknown what it needs"
            yield _Need(why, None, f"{path.name}-")


def _open_groups(store: Store) -> Iterator[_Need]:
    """Yield the open groups, with their plans and the data keys of their jobs: a sweep has no plan."""
    for parent in store.call(runs_where, store.client, tagged(kind="group", group_state="open")):
        group = parent.data.tags.get("platform.group", "")
        runs = store.call(runs_where, store.client, tagged(kind="job", group=group))
        text = "\n".join([_plan(store, parent), *(tags_of(run).get("platform.data_key", "") for run in runs)])
        yield _Need(f"group {group} is open, and its command or `trainfare attach` resumes it", text, f"{group}-")


def _plan(store: Store, parent: Any) -> str:
    """Return the text of a group's plan, or an empty text. Raises TrackingError if it is damaged or cannot be read."""
    run_id = parent.info.run_id
    if PLAN not in _artifacts(store, parent):
        return ""
    try:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(store.call(store.client.download_artifacts, run_id, PLAN, folder)).read_text("utf-8")
        json.loads(text)["jobs"]
        return text
    except Exception as error:  # each store of artifacts raises its own
        raise TrackingError(
            f"The {PLAN} of run {run_id} is damaged or cannot be read, so it is unknown which folders its open "
            "group needs. If you will not resume the group, delete the run in MLflow"
        ) from error


def _artifacts(store: Store, run: Any) -> set[str]:
    """Return the paths of a run's artifacts. Each store of artifacts raises its own errors."""
    try:
        return {each.path for each in store.call(store.client.list_artifacts, run.info.run_id)}
    except Exception as error:
        raise TrackingError(f"The artifacts of run {run.info.run_id} cannot be read") from error


def _with_decision(
    store: Store,
    folder: Folder,
    folders: Sequence[Folder],
    needs: Sequence[_Need],
    options: PruneOptions,
) -> Folder:
    """Return the folder with its runs and the reason why it is kept."""
    if folder.name.startswith("."):  # a process that was killed left it incomplete
        return folder
    if folder.kind != "models" and (need := next((each for each in needs if each.includes(folder)), None)):
        return replace(folder, kept=need.why)
    if time.time() - folder.changed < options.older_than_seconds:
        return replace(folder, kept="younger than --older-than")
    if folder.kind in JOB_KINDS:
        folder = replace(folder, runs=store.call(runs_where, store.client, tagged(kind="job", job_name=folder.name)))
        if not all(map(has_ended, folder.runs)):
            return replace(folder, kept="the end of the job is not recorded yet")
    only_copy = "" if options.everything else _reason_only_copy(store, folder, folders)
    return replace(folder, kept=f"{only_copy} (deleted only with --everything)" if only_copy else "")


def _reason_only_copy(store: Store, folder: Folder, folders: Sequence[Folder]) -> str:
    """Return why a folder may be the only copy of a model or a result, or an empty text."""
    if folder.kind not in JOB_KINDS:
        return "runs were trained with this source" if folder.kind == "sources" else ""
    if not folder.runs:
        return "the tracking server has no run of the job"
    if folder.kind == "jobs":
        written = (path.name for path in (JobFolder(folder.path).base / "output" / "data").glob("*"))
        if not set(written) <= COPIED_FILES:
            return "the script wrote files that exist nowhere else"
        is_logged = all("log.txt" in _artifacts(store, run) for run in folder.runs)
        return "" if is_logged else "MLflow has no copy of the log"
    if all(holds_model(store, run) for run in folder.runs):
        return ""
    if folder.kind == "outputs":
        return "MLflow has no copy of the model"
    if any(run.info.status != "FINISHED" for run in folder.runs):
        return "the training did not complete and can resume from it"
    has_artifact = any(each.kind == "outputs" and each.name == folder.name for each in folders)
    return "" if has_artifact else "no other copy of the weights exists"


def delete_selected(
    selected: Sequence[Folder], root: Path, store: Store, options: PruneOptions
) -> tuple[list[Folder], list[str]]:
    """Delete the selected folders that may still be deleted. Return them, and a message for each failure.

    Commands that start to read data wait for the locks, and stage deleted data again. Under the locks, each folder is
    decided again and renamed in one step, so that a kill leaves no incomplete folder under its name. Raises
    TrackingError before anything is deleted.
    """
    errors: list[str] = []
    discarded: list[tuple[Folder, Path]] = []
    with ExitStack() as held:
        locked = {
            each.path
            for each in selected
            if each.kind in JOB_KINDS or held.enter_context(locks.lock_for_deletion(each.path))
        }
        for folder in select(root, store, options):
            if folder.path in locked and not folder.kept and (trash := _discard(folder, root, store, errors)):
                discarded.append((folder, trash))
    deleted = []
    for folder, trash in discarded:
        try:
            delete(trash)
            deleted.append(folder)
        except OSError as error:
            errors.append(f"{trash} is only partly deleted: {error}. The next prune deletes the rest.")
    return deleted, errors


def _discard(folder: Folder, root: Path, store: Store, errors: list[str]) -> Path | None:
    """Rename a folder and return its new path, or None if another process uses or deletes it."""
    lock = None
    try:
        if folder.kind == "jobs":
            lock = JobFolder(folder.path).lock_for_supervisor()
        for run in folder.runs if folder.kind == "outputs" else ():
            if uri := run.data.tags.get(MODEL_TAG):  # first, because a run must not name a model that does not exist
                mark_model_deleted(store, run.info.run_id, uri)
        return discard(folder.path, root)
    except (BlockingIOError, FileNotFoundError):
        return None
    except (OSError, ValueError, TrackingError) as error:
        errors.append(f"{folder.path} was not deleted: {error}")
        return None
    finally:
        if lock is not None:
            os.close(lock)
