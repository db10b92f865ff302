"""What of the state on this machine may go: the rules, over what lies on the disk and what the runs say. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.pruning.inventory import OF_JOBS, Folder, Inventory
from tracking.groups.run_references import JobReference, RunReferences

KINDS = {
    "jobs": "work folders of jobs that have ended and whose runs hold their logs",
    "checkpoints": "checkpoints of trainings that completed",
    "data": "staged data that nothing reads any more; the same command stages it again",
    "fetched": "models that were fetched to be used; who uses one again fetches it again",
    "deleted": "all that belongs to runs that are deleted in MLflow",
    "unfinished": "checkpoints of trainings that failed or were stopped, which could go on from them",
    "copies": "model artifacts whose models MLflow holds, logged to their runs",
    "models": "other model artifacts that runs name, and checkpoints where a run has no other weights",
    "outputs": "work folders with files that a script wrote to its output folder, which are nowhere else",
    "sources": "copies of scripts, which are what runs were trained with",
    "unknown": "what the tracking server knows no run of: another server's, or deleted for good",
}
"""What may be deleted, by the word that asks for it: each folder is of one kind."""

DEFAULT_KINDS = frozenset({"jobs", "checkpoints", "data", "fetched", "copies", "deleted"})
"""What nothing refers to any more; the others go only when they are named."""

LEFT_OVERS = "left over"
"""Kind of what a process that was killed left half made or half deleted: it always goes."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a person asks to delete."""

    kinds: frozenset[str] = DEFAULT_KINDS
    older_than_seconds: float = 0.0
    group: str | None = None
    """Id of the group to which it is confined; None is all."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A folder, and whether it may go."""

    folder: Folder
    kind: str | None
    """One of KINDS, or LEFT_OVERS; None is needed, whatever is asked for."""
    why: str
    """Why it may go, or why it stays."""
    goes: bool
    experiment: str
    """Names of the experiments that it belongs to."""
    age_seconds: float
    """Since anything in it changed or, for data, a job that reads it told anything."""


def judge(found: Inventory, told: RunReferences, choice: Choice, now: float) -> list[Judged]:
    """Return what of all that was found the choice is about, largest first; `now` in seconds since the epoch."""
    chosen = [each for each in found.folders if choice.group is None or _is_of(each, choice.group, found)]
    judged = [_judged(folder, found, told, choice, now) for folder in chosen]
    return sorted(judged, key=lambda each: -each.folder.size_bytes)


def _judged(folder: Folder, found: Inventory, told: RunReferences, choice: Choice, now: float) -> Judged:
    kind, why = kind_of(folder, found, told)
    age_seconds = now - max(_changes(folder, found))
    kept = ""
    if kind is not None and kind != LEFT_OVERS:
        if kind not in choice.kinds:
            kept = f"{why} (--what {kind})"
        elif age_seconds < choice.older_than_seconds:
            kept = "younger than asked for"
    return Judged(
        folder=folder,
        kind=kind,
        why=kept or why,
        goes=kind is not None and not kept,
        experiment=", ".join(sorted(_experiments(folder, found, told))),
        age_seconds=age_seconds,
    )


def kind_of(folder: Folder, found: Inventory, told: RunReferences) -> tuple[str | None, str]:
    """Return of which kind a folder is, and why it may go; None and why, for one that is needed."""
    if folder.is_left_over:
        return LEFT_OVERS, "a process that was killed has left it"
    if folder.place == "models":
        return "fetched", "it can be fetched again"
    if need := _need(folder, found, told):
        return None, need
    if folder.place not in OF_JOBS:
        return _kind_of_shared(folder, found, told)
    job = told.jobs.get(folder.name)
    if job is None:
        return "unknown", "the tracking server knows no run of it"
    if job.is_deleted:
        return "deleted", "its run is deleted"
    return _kind_of_jobs(folder, found, job)


def _need(folder: Folder, found: Inventory, told: RunReferences) -> str:
    """Return who needs a folder whatever is asked for, or nothing."""
    for running in (job for job in found.jobs.values() if not job.has_ended):
        if folder.name in running.request:  # its own name, too
            return f"job {running.name} has not ended"
    if unreadable := _unreadable(folder, found):
        return unreadable
    for group, names in told.open_groups.items():
        if folder.name.startswith(f"{group}-") or folder.name in names:
            return f"group {group} is open: the same command, or attach, goes on with it"
    job = told.jobs.get(folder.name)
    if folder.place not in OF_JOBS or job is None or job.is_deleted:
        return ""
    if not job.has_ended:
        return "its run is open: its end is not recorded yet"
    return "its log is nowhere else" if folder.place == "jobs" and not job.has_log else ""


def _unreadable(folder: Folder, found: Inventory) -> str:
    """Return why a folder stays whose job, or one that may read it, nobody can tell anything of."""
    if folder.place in OF_JOBS:
        is_read = folder.name in found.jobs if folder.place == "jobs" else folder.name not in found.unreadable
        return "" if is_read else "the state of its job cannot be read"
    unread = sorted(found.unreadable)
    return f"the state of job {unread[0]}, which may read it, cannot be read" if unread else ""


def _kind_of_jobs(folder: Folder, found: Inventory, job: JobReference) -> tuple[str, str]:
    """Return the kind of a folder of a job whose run is there and has ended."""
    if folder.place == "outputs":
        return ("copies", "MLflow holds its model") if job.has_model else ("models", "its run names it")
    if folder.place == "jobs":
        if found.jobs[folder.name].wrote_output:
            return "outputs", "what its script wrote is nowhere else"
        return "jobs", "its run has ended and holds its log"
    if not job.is_completed:
        return "unfinished", "its training did not complete, and can go on from it"
    if not job.has_model and not any(each.place == "outputs" and each.name == folder.name for each in found.folders):
        return "models", "its run has no other weights"
    return "checkpoints", "its training has completed"


def _kind_of_shared(folder: Folder, found: Inventory, told: RunReferences) -> tuple[str, str]:
    """Return the kind of staged data, or of a script's copy, that no open group and no running job reads."""
    readers = _readers(folder, found)
    for name in readers:
        if name not in told.jobs:
            return "unknown", f"job {name} reads it, and the tracking server knows no run of that"
    if not readers and folder.name not in told.data_keys and folder.place == "staged":
        return "unknown", "the tracking server knows no run that read it"
    if folder.place == "staged":
        return "data", "nothing that is open reads it"
    if readers and all(told.jobs[name].is_deleted for name in readers):
        return "deleted", "the runs of its jobs are deleted"
    return "sources", "it is what runs were trained with"


def _readers(folder: Folder, found: Inventory) -> list[str]:
    return [job.name for job in found.jobs.values() if folder.name in job.request]


def _changes(folder: Folder, found: Inventory) -> Sequence[float]:
    """Return when a folder and, for one that jobs share, the work folders of these changed."""
    if folder.place in OF_JOBS:
        return [folder.changed]
    readers = _readers(folder, found)
    work = (each for each in found.folders if each.place == "jobs" and each.name in readers)
    return [folder.changed, *(each.changed for each in work)]


def _experiments(folder: Folder, found: Inventory, told: RunReferences) -> set[str]:
    names = [folder.name] if folder.place in OF_JOBS else _readers(folder, found)
    return {told.jobs[name].experiment for name in names if name in told.jobs} - {""}


def _is_of(folder: Folder, group: str, found: Inventory) -> bool:
    names = [folder.name] if folder.place in OF_JOBS else _readers(folder, found)
    return folder.is_left_over or any(name.startswith(f"{group}-") for name in names)
