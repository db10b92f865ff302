"""Log the models that a group keeps, by its field `log_model`, and delete the artifacts that it no longer needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from mlflow.entities import LoggedModelStatus, Run

from models.logged.flavor import NotServable
from models.logged.log_model import FAILURE, MODEL_ARTIFACT, Failures, is_logged, log_model
from models.trained_model import error_code
from models.winner import best_job, winner
from reports.comparison.arms import job_of
from state import folders as state_folders
from tracking.groups.group import Group, child_runs
from tracking.groups.planned_job import MODEL_ID
from tracking.queries import job_tables
from tracking.recording.recorder import Outcome
from tracking.server.errors import is_refusal
from tracking.server.store import Store
from training.contract.errors import InputError, TrackingError
from training.contract.service import Service

MODEL_TAG = "platform.model_uri"
DELETED_MODEL_TAG = "platform.model_deleted"
"""Tag with the date on which a run's model artifact was deleted, and the artifact's address."""

Echo = Callable[[str], None]


def log_models(
    store: Store, service: Service, group: Group, outcomes: Sequence[Outcome], scratch: Path, echo: Echo
) -> None:
    """Log the models that the group keeps, unless their runs already have them.

    Without a rule in the plan (`ModelPlan.keeps`), every completed job that saved a model keeps it.
    Each failure is printed and stored in the run's tag `platform.model_failure`. If the server stops answering, the
    remaining models are skipped.
    """
    started, logged_bytes, last = time.monotonic(), list[int](), ""
    failures: dict[str, list[str]] = {}
    try:
        kept = kept_runs(store, group, outcomes)
        waiting = _without_models(store, group, [each for each in outcomes if each.run_id in kept])
    except TrackingError as error:
        echo(f"No model was logged to MLflow: {_reason(error)}.")
        return
    for outcome in waiting:
        try:
            size_bytes = log_model(store, service, outcome.planned, outcome.run_id, scratch)
            if size_bytes is not None:
                logged_bytes.append(size_bytes)
                last = outcome.run_id
        except Failures as error:
            failures.setdefault(_reason(error), []).append(outcome.planned.spec.name)
            if isinstance(error, TrackingError) and not is_refusal(error):
                break
            with suppress(TrackingError):
                store.tag(outcome.run_id, {FAILURE: _reason(error)})
    for reason, names in failures.items():
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        echo(f"The model of job {names[0]}{more} was not logged to MLflow: {reason}.")
    if logged_bytes:
        what = "Model" if len(logged_bytes) == 1 else f"{len(logged_bytes)} models"
        size = f"{sum(logged_bytes) / 2**20:.0f} MiB, {time.monotonic() - started:.1f} s"
        echo(f"{what} logged in MLflow ({size}): `mlflow models serve -m runs:/{last}/model`")


def _without_models(store: Store, group: Group, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the completed jobs that saved a model but whose runs have no MLflow model. One call reads all runs."""
    runs = {str(run.info.run_id): run for run in child_runs(store, group).values()}
    completed = [each for each in outcomes if each.planned.model and not each.failure and each.run_id in runs]
    kept = [each for each in completed if "platform.model_uri" in runs[each.run_id].data.tags]
    return [each for each in kept if not is_logged(runs[each.run_id])]


def _reason(error: Exception) -> str:
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return (
        f"the job's artifact is not a model that can be served: {reason}" if isinstance(error, NotServable) else reason
    )


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


def delete_artifacts(store: Store, group: Group, outcomes: Sequence[Outcome], home: Path, echo: Echo) -> None:
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
        return
    sizes, error = list[int](), ""
    for run_id, folder in present.items():
        try:
            size, _ = state_folders.measure(folder)
            if uri := runs[run_id].data.tags.get(MODEL_TAG):
                mark_model_deleted(store, run_id, uri)  # first: no run may name a file that does not exist
            state_folders.delete(state_folders.discard(folder, home.resolve()))
            sizes.append(size)
        except (FileNotFoundError, KeyError):  # a prune deletes the folder, or the run was deleted
            continue
        except (OSError, ValueError, TrackingError) as problem:
            error = f"{folder} was not deleted: {problem}".rstrip(".")
            break
    if sizes:
        what = "1 model artifact" if len(sizes) == 1 else f"{len(sizes)} model artifacts"
        size_mib = f"{sum(sizes) / 2**20:,.0f} MiB"
        echo(f"Deleted {what} ({size_mib}), because MLflow holds the models that the group keeps (log_model).")
    if error:
        echo(f"{error}.")


def holds_model(store: Store, run: Run) -> bool:
    """Return whether MLflow has a complete model of the run. Raises TrackingError."""
    if MODEL_ARTIFACT in run.data.tags:
        return True
    if (model_id := run.data.tags.get(MODEL_ID)) is None:
        return False
    try:
        return bool(store.call(store.client.get_logged_model, model_id).status == LoggedModelStatus.READY)
    except TrackingError as error:
        if error_code(error) == "RESOURCE_DOES_NOT_EXIST":  # deleted by a user
            return False
        raise


def mark_model_deleted(store: Store, run_id: str, uri: str) -> None:
    """Record in a run that its model artifact at `uri` is deleted, and remove its address. Raises TrackingError."""
    store.tag(run_id, {DELETED_MODEL_TAG: f"{datetime.now(UTC):%Y-%m-%d} {uri}"})
    store.call(store.client.delete_tag, run_id, MODEL_TAG)
