"""Decide which local folders may be deleted, from the inventory and the references of recorded runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from experiments.pruning.inventory import JOB_FOLDERS, Folder, Inventory
from tracking.groups.run_references import JobReference, RunReferences

Deletability = Literal["needed", "irreplaceable", "safe", "leftover"]
"""`needed`: a job, an open group or an open run uses it, so it is never deleted. `irreplaceable`: nothing uses it now,
but it exists nowhere else. `safe`: it can be made again, MLflow has a copy, or its run is deleted. `leftover`: a
process that was killed left it incomplete, so it is always deleted."""


@dataclass(frozen=True, kw_only=True)
class PruneOptions:
    """Options of `jobs prune`: the folders to delete."""

    everything: bool = False
    """Delete irreplaceable folders too, not only safe ones."""
    older_than_seconds: float = 0.0
    """Smallest age of a folder to delete."""
    group: str | None = None
    """Id of the only group to consider; None considers all."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A folder, and the decision about it."""

    folder: Folder
    status: Deletability
    why: str
    """Reason why it may be deleted, or is kept."""
    is_deletable: bool
    """True if it may be deleted and the options include it."""
    experiment: str
    """Names of the experiments that it belongs to, separated by commas."""
    age_seconds: float
    """Time since the latest change in it or, for shared data, also in the work folders of jobs that read it."""


def decide(inventory: Inventory, references: RunReferences, options: PruneOptions, now: float) -> list[Decision]:
    """Return a decision for each folder of the options' group, largest first; `now` is in seconds since the epoch."""
    folders = [
        each for each in inventory.folders if options.group is None or _belongs_to_group(each, options.group, inventory)
    ]
    decisions = [_decide(folder, inventory, references, options, now) for folder in folders]
    return sorted(decisions, key=lambda each: -each.folder.size_bytes)


def _decide(
    folder: Folder, inventory: Inventory, references: RunReferences, options: PruneOptions, now: float
) -> Decision:
    status, why = status_of(folder, inventory, references)
    age_seconds = now - max(_change_times(folder, inventory))
    kept = ""
    if status == "irreplaceable" and not options.everything:
        kept = f"{why} (--everything deletes it)"
    elif status in {"irreplaceable", "safe"} and age_seconds < options.older_than_seconds:
        kept = "younger than --older-than"
    return Decision(
        folder=folder,
        status=status,
        why=kept or why,
        is_deletable=status != "needed" and not kept,
        experiment=", ".join(sorted(_experiments(folder, inventory, references))),
        age_seconds=age_seconds,
    )


def status_of(folder: Folder, inventory: Inventory, references: RunReferences) -> tuple[Deletability, str]:
    """Return the status of a folder and the reason for it."""
    if folder.is_leftover:
        return "leftover", "left incomplete by a process that was killed"
    if folder.kind == "models":
        return "safe", "it can be fetched again"
    if need := _reason_needed(folder, inventory, references):
        return "needed", need
    if folder.kind not in JOB_FOLDERS:
        return _status_of_shared(folder, inventory, references)
    job = references.jobs.get(folder.name)
    if job is None:
        return "irreplaceable", "the tracking server has no run of this job"
    if job.is_deleted:
        return "safe", "its run is deleted"
    return _status_of_job(folder, inventory, job)


def _reason_needed(folder: Folder, inventory: Inventory, references: RunReferences) -> str:
    """Return the reason why a folder must not be deleted, or an empty text."""
    for running in (job for job in inventory.jobs.values() if not job.has_ended):
        if folder.name in running.request:  # a request also holds the job's own name
            return f"job {running.name} has not ended"
    if unreadable := _unreadable(folder, inventory):
        return unreadable
    for group, names in references.open_groups.items():
        if folder.name.startswith(f"{group}-") or folder.name in names:
            return f"group {group} is open: the same command or `attach` can resume it"
    job = references.jobs.get(folder.name)
    if folder.kind not in JOB_FOLDERS or job is None or job.is_deleted:
        return ""
    if not job.has_ended:
        return "its run is open: the end of the job is not recorded yet"
    return "its run does not contain its log" if folder.kind == "jobs" and not job.has_log else ""


def _unreadable(folder: Folder, inventory: Inventory) -> str:
    """Return why a folder is kept if the state of its job, or of a job that may read it, cannot be read."""
    if folder.kind in JOB_FOLDERS:
        is_read = folder.name in inventory.jobs if folder.kind == "jobs" else folder.name not in inventory.unreadable
        return "" if is_read else "the state of its job cannot be read"
    unread = sorted(inventory.unreadable)
    return f"the state of job {unread[0]}, which may read it, cannot be read" if unread else ""


def _status_of_job(folder: Folder, inventory: Inventory, job: JobReference) -> tuple[Deletability, str]:
    """Return the status of a folder of a job whose run exists and has ended."""
    if folder.kind == "outputs":
        return ("safe", "MLflow has a copy") if job.has_model else ("irreplaceable", "its run refers to it")
    if folder.kind == "jobs":
        if inventory.jobs[folder.name].wrote_output:
            return "irreplaceable", "its script wrote files that exist nowhere else"
        return "safe", "its run has ended and contains its log"
    if not job.is_completed:
        return "irreplaceable", "its training did not complete and can resume from it"
    has_artifact = any(each.kind == "outputs" and each.name == folder.name for each in inventory.folders)
    if not job.has_model and not has_artifact:
        return "irreplaceable", "its run has no other weights"
    return "safe", "its training has completed"


def _status_of_shared(folder: Folder, inventory: Inventory, references: RunReferences) -> tuple[Deletability, str]:
    """Return the status of staged data or of a script's copy or environment that no group or job uses now."""
    if folder.kind == "environments":
        return "safe", "it can be installed again"
    readers = _readers(folder, inventory)
    for name in readers:
        if name not in references.jobs:
            return "irreplaceable", f"job {name} reads it, and the tracking server has no run of that job"
    if not readers and folder.name not in references.data_keys and folder.kind == "staged":
        return "irreplaceable", "the tracking server has no run that read it"
    if folder.kind == "staged":
        return "safe", "no open group reads it"
    if readers and all(references.jobs[name].is_deleted for name in readers):
        return "safe", "the runs of its jobs are deleted"
    return "irreplaceable", "runs were trained with it"


def _readers(folder: Folder, inventory: Inventory) -> list[str]:
    return [job.name for job in inventory.jobs.values() if folder.name in job.request]


def _change_times(folder: Folder, inventory: Inventory) -> Sequence[float]:
    """Return when the folder last changed; for a shared folder also when the work folders of its jobs last changed."""
    if folder.kind in JOB_FOLDERS:
        return [folder.changed]
    readers = _readers(folder, inventory)
    work = (each for each in inventory.folders if each.kind == "jobs" and each.name in readers)
    return [folder.changed, *(each.changed for each in work)]


def _experiments(folder: Folder, inventory: Inventory, references: RunReferences) -> set[str]:
    names = [folder.name] if folder.kind in JOB_FOLDERS else _readers(folder, inventory)
    return {references.jobs[name].experiment for name in names if name in references.jobs} - {""}


def _belongs_to_group(folder: Folder, group: str, inventory: Inventory) -> bool:
    names = [folder.name] if folder.kind in JOB_FOLDERS else _readers(folder, inventory)
    return folder.is_leftover or any(name.startswith(f"{group}-") for name in names)
