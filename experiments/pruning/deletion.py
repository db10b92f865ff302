"""Delete what may go: judged anew under the locks, each folder without its name before it is without its files."""

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


def look(found: Inventory, store: Store, choice: Choice) -> tuple[list[Judged], RunReferences]:
    """Return what of the found the choice is about, judged, and what the tracking server says. Raises TrackingError."""
    whole = [folder for folder in found.folders if not folder.is_left_over]
    try:
        told = find_references(
            store,
            job_names={folder.name for folder in whole if folder.place in OF_JOBS} | set(found.jobs),
            with_log=set(found.jobs),
            data_keys={folder.name for folder in whole if folder.place == "staged"},
        )
    except TrackingError as error:
        raise TrackingError(f"{str(error).rstrip('.')}. {NOTHING_DELETED}") from error
    return judge(found, told, choice, time.time()), told


def delete(going: Sequence[Judged], root: Path, store: Store, choice: Choice) -> tuple[list[Judged], list[str]]:
    """Delete what still may go; return what is gone, and a sentence for each that could not be deleted.

    Raises TrackingError, and then nothing is deleted.
    """
    errors: list[str] = []
    discarded = _discarded(going, root, store, choice, errors)
    return [each for each, path in discarded if _is_gone(path, errors)], errors


def _discarded(
    going: Sequence[Judged], root: Path, store: Store, choice: Choice, errors: list[str]
) -> list[tuple[Judged, Path]]:
    """Take the names away of what still may go; its files go afterwards, which takes longer and needs no lock."""
    with ExitStack() as locks:
        # A command that begins to read data waits from here on; what it finds gone afterwards it makes again.
        free = {each.folder.path for each in going if locks.enter_context(_alone(each.folder))}
        judged, told = look(inventory(root, time.time()), store, choice)
        still = free & {each.folder.path for each in judged if each.goes}
        paths = [(each, _discard(each, root, store, told, errors)) for each in going if each.folder.path in still]
    return [(each, path) for each, path in paths if path]


def _alone(folder: Folder) -> AbstractContextManager[bool]:
    return nullcontext(True) if folder.place in OF_JOBS else shared_folders.lock_for_deletion(folder.path)


def _discard(each: Judged, root: Path, store: Store, told: RunReferences, errors: list[str]) -> Path | None:
    """Take a folder's name away, and return where it is now; None where somebody has it."""
    folder = each.folder
    try:
        with _supervised(folder):
            # First: a run that names a model which is gone would be a lie, one that does not is only late.
            if each.kind in {"models", "copies"} and folder.place == "outputs":
                mark_models_deleted(store, told.jobs[folder.name])
            return deletion.discard(folder.path, root)
    except (BlockingIOError, FileNotFoundError):
        return None
    except (OSError, ValueError, TrackingError) as error:
        errors.append(f"{folder.path} was not deleted: {error}")
        return None


@contextmanager
def _supervised(folder: Folder) -> Iterator[None]:
    """Be the supervisor of a job whose work folder goes. Raises BlockingIOError where there is one."""
    if folder.place != "jobs":
        yield
        return
    lock = JobFolder(folder.path).hold()
    try:
        yield
    finally:
        os.close(lock)


def _is_gone(path: Path, errors: list[str]) -> bool:
    try:
        deletion.delete(path)
    except OSError as error:
        errors.append(f"{path} is not deleted to its end: {error}. The next prune goes on with it.")
        return False
    return True
