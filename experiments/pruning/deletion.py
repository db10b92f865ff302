"""Deletion of the folders that `jobs prune` selected.

Under the locks every folder is judged again. A folder then loses its name in one step, and its files afterwards: a
process that is killed meanwhile leaves no incomplete folder under a name that others use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

from experiments.pruning.inventory import OF_JOBS, Folder, Inventory, inventory
from experiments.pruning.rules import Choice, Judged, judge
from tracking.groups.run_references import RunReferences, find_references, mark_models_deleted
from tracking.server.store import Store
from training.contract.errors import TrackingError
from training.services.local.job_folder import JobFolder
from training.state import deletion, shared_folders

NOTHING_DELETED = "Nothing was deleted."


def judge_inventory(local: Inventory, store: Store, choice: Choice) -> tuple[list[Judged], RunReferences]:
    """Judge local folders by what the tracking server refers to; return that too. Raises TrackingError."""
    complete = [folder for folder in local.folders if not folder.is_left_over]
    try:
        references = find_references(
            store,
            job_names={folder.name for folder in complete if folder.place in OF_JOBS} | set(local.jobs),
            with_log=set(local.jobs),
            data_keys={folder.name for folder in complete if folder.place == "staged"},
        )
    except TrackingError as error:
        raise TrackingError(f"{str(error).rstrip('.')}. {NOTHING_DELETED}") from error
    return judge(local, references, choice, time.time()), references


def delete(selected: Sequence[Judged], root: Path, store: Store, choice: Choice) -> tuple[list[Judged], list[str]]:
    """Delete the selected folders that may still be deleted.

    Returns the deleted ones, and an error message for each that could not be deleted. Raises TrackingError before
    anything is deleted.
    """
    errors: list[str] = []
    discarded = _discard_all(selected, root, store, choice, errors)
    return [each for each, path in discarded if _delete_files(path, errors)], errors


def _discard_all(
    selected: Sequence[Judged], root: Path, store: Store, choice: Choice, errors: list[str]
) -> list[tuple[Judged, Path]]:
    """Rename the folders that may still be deleted. Deleting their files takes longer and needs no lock."""
    with ExitStack() as locks:
        # Commands that start to read data wait for the locks, and stage again what they then do not find.
        locked = {each.folder.path for each in selected if locks.enter_context(_exclusive_lock(each.folder))}
        judged, references = judge_inventory(inventory(root, time.time()), store, choice)
        deletable = locked & {each.folder.path for each in judged if each.is_deletable}
        chosen = [each for each in selected if each.folder.path in deletable]
        paths = [(each, _discard(each.folder, root, store, references, errors)) for each in chosen]
    return [(each, path) for each, path in paths if path]


def _exclusive_lock(folder: Folder) -> AbstractContextManager[bool]:
    return nullcontext(True) if folder.place in OF_JOBS else shared_folders.lock_for_deletion(folder.path)


def _discard(folder: Folder, root: Path, store: Store, references: RunReferences, errors: list[str]) -> Path | None:
    """Rename a folder and return its new path, or None if another process uses or deletes it."""
    job = references.jobs.get(folder.name)
    try:
        with _supervisor_lock(folder):
            # First, because a run must not name a model that does not exist.
            if folder.place == "outputs" and job is not None and not job.is_deleted:
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
    if folder.place != "jobs":
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
