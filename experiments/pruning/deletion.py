"""Delete the folders that `jobs prune` selected.

Under the locks, the rules are applied to every folder again. Each folder is then renamed in one step before its files
are deleted: a process that is killed in between leaves no incomplete folder under the original name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

from experiments.pruning.inventory import JOB_FOLDERS, Folder, Inventory, inventory
from experiments.pruning.rules import Decision, PruneOptions, decide
from tracking.groups.run_references import RunReferences, find_references, mark_models_deleted
from tracking.server.store import Store
from training.contract.errors import TrackingError
from training.services.local.job_folder import JobFolder
from training.state import deletion, shared_folders

NOTHING_DELETED = "Nothing was deleted."


def decide_all(local: Inventory, store: Store, options: PruneOptions) -> tuple[list[Decision], RunReferences]:
    """Decide about each local folder by the references of the tracking server; return both. Raises TrackingError."""
    complete = [folder for folder in local.folders if not folder.is_leftover]
    try:
        references = find_references(
            store,
            job_names={folder.name for folder in complete if folder.kind in JOB_FOLDERS} | set(local.jobs),
            with_log=set(local.jobs),
            data_keys={folder.name for folder in complete if folder.kind == "staged"},
        )
    except TrackingError as error:
        raise TrackingError(f"{str(error).rstrip('.')}. {NOTHING_DELETED}") from error
    return decide(local, references, options, time.time()), references


def delete(
    selected: Sequence[Decision], root: Path, store: Store, options: PruneOptions
) -> tuple[list[Decision], list[str]]:
    """Delete the selected folders that may still be deleted.

    Returns the deleted ones, and an error message for each that could not be deleted. Raises TrackingError before
    anything is deleted.
    """
    errors: list[str] = []
    discarded = _discard_all(selected, root, store, options, errors)
    return [each for each, path in discarded if _delete_files(path, errors)], errors


def _discard_all(
    selected: Sequence[Decision], root: Path, store: Store, options: PruneOptions, errors: list[str]
) -> list[tuple[Decision, Path]]:
    """Rename the folders that may still be deleted. Deleting their files takes longer and needs no lock."""
    with ExitStack() as locks:
        # Commands that start to read data wait for the locks, and stage deleted data again.
        locked = {each.folder.path for each in selected if locks.enter_context(_exclusive_lock(each.folder))}
        decisions, references = decide_all(inventory(root, time.time()), store, options)
        deletable = locked & {each.folder.path for each in decisions if each.is_deletable}
        chosen = [each for each in selected if each.folder.path in deletable]
        paths = [(each, _discard(each.folder, root, store, references, errors)) for each in chosen]
    return [(each, path) for each, path in paths if path]


def _exclusive_lock(folder: Folder) -> AbstractContextManager[bool]:
    return nullcontext(True) if folder.kind in JOB_FOLDERS else shared_folders.lock_for_deletion(folder.path)


def _discard(folder: Folder, root: Path, store: Store, references: RunReferences, errors: list[str]) -> Path | None:
    """Rename a folder and return its new path, or None if another process uses or deletes it."""
    job = references.jobs.get(folder.name)
    try:
        with _supervisor_lock(folder):
            # First, because a run must not name a model that does not exist.
            if folder.kind == "outputs" and job is not None and not job.is_deleted:
                mark_models_deleted(store, job)
            return deletion.discard(folder.path, root)
    except (BlockingIOError, FileNotFoundError):
        return None
    except (OSError, ValueError, TrackingError) as error:
        errors.append(f"{folder.path} was not deleted: {error}")
        return None


@contextmanager
def _supervisor_lock(folder: Folder) -> Iterator[None]:
    """Hold the supervisor's lock of a job's work folder. Raises BlockingIOError if a supervisor runs."""
    if folder.kind != "jobs":
        yield
        return
    lock = JobFolder(folder.path).lock_for_supervisor()
    try:
        yield
    finally:
        os.close(lock)


def _delete_files(path: Path, errors: list[str]) -> bool:
    try:
        deletion.delete(path)
    except OSError as error:
        errors.append(f"{path} is only partly deleted: {error}. The next prune deletes the rest.")
        return False
    return True
