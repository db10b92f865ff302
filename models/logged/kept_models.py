"""Models that a group keeps, and the artifacts that it no longer needs: its rule is the field `log_model`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mlflow.entities import LoggedModelStatus, Run

from models.logged.log_model import MODEL_ARTIFACT
from models.lookup.winner import best_job, winner
from reports.comparison.arms import job_of
from tracking.following.followed_job import Outcome
from tracking.groups.group import Group, child_runs
from tracking.groups.planned_job import MODEL_ID
from tracking.queries import job_tables
from tracking.server.store import Store
from training.contract.errors import InputError, TrackingError
from training.state import folders

MODEL_TAG = "platform.model_uri"
DELETED_MODEL_TAG = "platform.model_deleted"
"""Tag with the date on which a run's model artifact was deleted, and the artifact's address."""


@dataclass(frozen=True, kw_only=True)
class Deleted:
    """Model artifacts that were deleted."""

    count: int
    size_bytes: int
    error: str = ""
    """Reason why others were not deleted."""


def kept_runs(store: Store, group: Group, outcomes: Sequence[Outcome]) -> set[str]:
    """Return the ids of the completed runs whose models the group keeps.

    A group whose winner's model is asked for and that has no winner keeps the best of each arm. Raises TrackingError.
    """
    completed = [each for each in outcomes if each.planned.model and not each.failure and each.run_id]
    rules = {each.planned.model.keeps for each in completed if each.planned.model}
    if not rules & {"best", "winner"}:
        return {each.run_id for each in completed}
    if "winner" in rules:
        try:
            return {winner(store.client, group.id, is_closing=True).run_id}
        except InputError:  # for example, no job of the winning arm succeeded
            pass
    rows = {job.run_id: job for job in map(job_of, job_tables.jobs(store.client, group.id).to_dict("records"))}
    arms: dict[str, list[str]] = {}
    for outcome in completed:
        if outcome.run_id in rows:
            arms.setdefault(outcome.planned.arm, []).append(outcome.run_id)
    return {best_job([rows[run_id] for run_id in run_ids])[0].run_id for run_ids in arms.values()}


def delete_artifacts(store: Store, group: Group, outcomes: Sequence[Outcome], home: Path) -> Deleted:
    """Delete the artifacts on this machine of models that MLflow holds, and of repeats that the group does not keep.

    Nothing is deleted unless MLflow holds every model that the group keeps. Artifacts of scripts stay, because they may
    contain more than a model. `home` is the state folder. Raises TrackingError.
    """
    own = [each for each in outcomes if each.planned.model and each.planned.model.keeps and not each.planned.script]
    folders = {each.run_id: home.resolve() / "outputs" / each.planned.spec.name for each in own if not each.failure}
    present = {run_id: folder for run_id, folder in folders.items() if folder.is_dir()}
    runs = {str(run.info.run_id): run for run in child_runs(store, group).values()} if present else {}
    kept = kept_runs(store, group, outcomes) if present else set()
    if not (kept and all(run_id in runs and holds_model(store, runs[run_id]) for run_id in kept)):
        return Deleted(count=0, size_bytes=0)
    return _delete(store, [(runs[run_id], folder) for run_id, folder in present.items() if run_id in runs], home)


def deleted_lines(deleted: Deleted) -> list[str]:
    """Return the lines for the terminal about what was deleted; none if that is nothing."""
    what = "1 model artifact" if deleted.count == 1 else f"{deleted.count} model artifacts"
    size = f"{deleted.size_bytes / 2**20:,.0f} MiB"
    line = f"Deleted {what} ({size}), because MLflow holds the models that the group keeps (log_model)."
    return [*([line] if deleted.count else []), *([f"{deleted.error.rstrip('.')}."] if deleted.error else [])]


def holds_model(store: Store, run: Run) -> bool:
    """Return whether MLflow has a complete model of the run. Raises TrackingError."""
    if MODEL_ARTIFACT in run.data.tags:
        return True
    if (model_id := run.data.tags.get(MODEL_ID)) is None:
        return False
    try:
        return bool(store.call(store.client.get_logged_model, model_id).status == LoggedModelStatus.READY)
    except TrackingError as error:
        if getattr(error.__cause__, "error_code", None) == "RESOURCE_DOES_NOT_EXIST":  # deleted by a user
            return False
        raise


def mark_model_deleted(store: Store, run_id: str, uri: str) -> None:
    """Record in a run that its model artifact at `uri` is deleted, and remove its address. Raises TrackingError."""
    store.tag(run_id, {DELETED_MODEL_TAG: f"{datetime.now(UTC):%Y-%m-%d} {uri}"})
    store.call(store.client.delete_tag, run_id, MODEL_TAG)


def _delete(store: Store, artifacts: Sequence[tuple[Run, Path]], home: Path) -> Deleted:
    count = size_bytes = 0
    for run, folder in artifacts:
        try:
            size, _ = folders.measure(folder)
            if uri := run.data.tags.get(MODEL_TAG):
                mark_model_deleted(store, run.info.run_id, uri)  # first: no run may name a file that does not exist
            folders.delete(folders.discard(folder, home.resolve()))
        except FileNotFoundError:  # a prune deletes it
            continue
        except (OSError, ValueError, TrackingError) as error:
            return Deleted(count=count, size_bytes=size_bytes, error=f"{folder} was not deleted: {error}")
        count, size_bytes = count + 1, size_bytes + size
    return Deleted(count=count, size_bytes=size_bytes)
