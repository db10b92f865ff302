"""Log the models that a group keeps, by its field `log_model`, and delete the artifacts that it no longer needs.

If the tracking server supports logged models (MLflow 3), the model becomes a logged model with the name of its arm,
`models:/m-...`. On an older server, it becomes an artifact of the run, `runs:/RUN/model`. A repeated call continues
from what an interrupted one left.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from mlflow.entities import LoggedModel, LoggedModelOutput, LoggedModelStatus, Run

from models.inference.evaluation import evaluation_of
from models.logged import flavor
from models.logged.flavor import NotServable, check_loads, served_task, unpack_model
from models.logged.model_folder import unfinished_folder
from models.trained_model import error_code
from models.winner import best_job, winner
from state import folders as state_folders
from state.locks import held_lock
from tracking.groups.group import Group, child_runs
from tracking.groups.planned_job import MODEL_ID, ModelPlan, PlannedJob
from tracking.queries import job_tables
from tracking.queries.job_tables import ARM, tags_of
from tracking.recorded.recorded_job import job_of
from tracking.recording.recorder import Outcome
from tracking.server.store import Store, is_refusal, is_unknown_call
from training.contract.errors import InputError, ServiceError, TrackingError, first_line
from training.contract.service import Echo, Service

MODEL_TAG = "platform.model_uri"
DELETED_MODEL_TAG = "platform.model_deleted"
"""Tag with the date on which a run's model artifact was deleted, and the artifact's address."""
NAME = "model"
"""Path of a model that is a run artifact."""
MODEL_ARTIFACT = "platform.model_artifact"
"""Tag of a run whose model is a run artifact: `runs:/RUN/model`."""
FAILURE = "platform.model_failure"
Failures = (NotServable, ServiceError, TrackingError, OSError)


def log_models(
    store: Store, service: Service, group: Group, outcomes: Sequence[Outcome], scratch: Path, echo: Echo
) -> None:
    """Log the models that the group keeps, unless their runs already have them.

    Each failure is printed and stored in the run's tag `platform.model_failure`. If the server stops answering, the
    remaining models are skipped.
    """
    started, logged_bytes, uri = time.monotonic(), list[int](), ""
    try:
        kept, runs = kept_runs(store, group, outcomes), _runs(store, group)
    except TrackingError as error:
        echo(f"No model was logged to MLflow: {str(error).splitlines()[0].rstrip('.')}.")
        return
    for outcome in outcomes:
        run = runs.get(outcome.run_id)
        is_kept = outcome.run_id in kept and outcome.planned.model
        if not is_kept or run is None or MODEL_TAG not in run.data.tags or is_logged(run):
            continue
        try:
            size_bytes = log_model(store, service, outcome.planned, outcome.run_id, scratch)
            if size_bytes is not None:
                logged_bytes.append(size_bytes)
                tags = store.call(store.client.get_run, outcome.run_id).data.tags
                uri = tags.get(MODEL_ARTIFACT) or f"models:/{tags[MODEL_ID]}"
        except Failures as error:
            reason = first_line(error)
            if isinstance(error, NotServable):
                reason = f"the job's artifact is not a model that can be served: {reason}"
            echo(f"The model of job {outcome.planned.spec.name} was not logged to MLflow: {reason}.")
            if isinstance(error, TrackingError) and not is_refusal(error):
                break
            with suppress(TrackingError):
                store.tag(outcome.run_id, {FAILURE: reason})
    if logged_bytes:
        what = "Model" if len(logged_bytes) == 1 else f"{len(logged_bytes)} models"
        size = f"{sum(logged_bytes) / 2**20:.0f} MiB, {time.monotonic() - started:.1f} s"
        echo(f"{what} logged in MLflow ({size}): `mlflow models serve -m {uri}`")


def _runs(store: Store, group: Group) -> dict[str, Run]:
    return {str(run.info.run_id): run for run in child_runs(store, group).values()}


def kept_runs(store: Store, group: Group, outcomes: Sequence[Outcome]) -> set[str]:
    """Return the ids of the completed runs whose models the group keeps.

    If the group keeps the winner's model and has no winner, it keeps the best of each arm. Raises TrackingError.
    """
    completed = [each for each in outcomes if each.planned.model and not each.failure and each.run_id]
    rules = {each.planned.model.keeps for each in completed if each.planned.model}
    if not rules & {"best", "winner"}:
        return {each.run_id for each in completed}
    if "winner" in rules:
        with suppress(InputError):  # for example, no job of the winning arm succeeded
            return {winner(store.client, group.id, is_closing=True).run_id}
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
    own = [each for each in outcomes if each.planned.model and not each.planned.script]
    folders = {each.run_id: home.resolve() / "outputs" / each.planned.spec.name for each in own if not each.failure}
    present = {run_id: folder for run_id, folder in folders.items() if folder.is_dir()}
    runs = _runs(store, group) if present else {}
    kept = kept_runs(store, group, outcomes) if present else set()
    if not (kept and all(run_id in runs and holds_model(store, runs[run_id]) for run_id in kept)):
        return
    sizes = list[int]()
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
            echo(f"{folder} was not deleted: {problem}".rstrip(".") + ".")
            break
    if sizes:
        what = "1 model artifact" if len(sizes) == 1 else f"{len(sizes)} model artifacts"
        size_mib = f"{sum(sizes) / 2**20:,.0f} MiB"
        echo(f"Deleted {what} ({size_mib}), because MLflow holds the models that the group keeps (log_model).")


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


def is_logged(run: Run) -> bool:
    return MODEL_ID in run.data.tags or MODEL_ARTIFACT in run.data.tags


def log_model(store: Store, service: Service, planned: PlannedJob, run_id: str, scratch: Path) -> int | None:
    """Log the model that a completed job left at `platform.model_uri`, tag its run, and return the bytes read.

    Returns None if a different command has logged it in the meantime. The model is built in `scratch`, the state
    folder's folder of models. Raises NotServable if the artifact has no usable model; ServiceError, TrackingError,
    OSError.
    """
    assert planned.model is not None
    file = scratch / f".logging-{run_id}.lock"
    # Only one command on this machine logs a run's model at a time. `jobs prune` ignores the file.
    with held_lock(file), unfinished_folder(scratch) as folder:
        try:
            run = store.call(store.client.get_run, run_id)
            if is_logged(run):
                return None
            uri, weights = run.data.tags[MODEL_TAG], Path(folder, flavor.WEIGHTS)
            weights.mkdir()
            with service.open_model(uri) as archive:
                size_bytes = unpack_model(archive, weights, f"the artifact {uri}")
            if planned.script is not None:
                check_loads(weights)
            _log(store, run, planned.spec.name, planned.model, Path(folder))
            return size_bytes
        finally:
            file.unlink(missing_ok=True)


def _log(store: Store, run: Run, job_name: str, plan: ModelPlan, folder: Path) -> None:
    """Turn the folder into an MLflow model and upload it. The run's tag is written last."""
    run_id, tags = run.info.run_id, tags_of(run)
    task = served_task(folder / flavor.WEIGHTS)
    evaluation = evaluation_of(run.data.params, task)
    trained_with = tags.get("platform.versions", "")
    metadata = {"job": job_name, "artifact": tags[MODEL_TAG], "trained_with": trained_with}
    model = _logged_model(store, run)
    if model is None:
        flavor.write(folder, task, plan, metadata, evaluation, run_id=run_id, artifact_path=NAME)
        store.call(store.client.log_artifacts, run_id, str(folder), NAME)
        store.tag(run_id, {MODEL_ARTIFACT: f"runs:/{run_id}/{NAME}"})
    else:
        names = {"artifact_path": model.artifact_location, "model_id": model.model_id, "model_uuid": model.model_id}
        try:
            flavor.write(folder, task, plan, metadata, evaluation, run_id=run_id, **names)
            store.call(store.client.log_model_artifacts, model.model_id, str(folder))
        except Failures as error:
            # Its entry would have no files. If the server did not answer, the next attempt continues from the entry.
            is_final = not isinstance(error, TrackingError) or is_refusal(error)
            if is_final and model.status != LoggedModelStatus.READY:
                with suppress(TrackingError):
                    store.call(store.client.delete_logged_model, model.model_id)
            raise
        if model.status != LoggedModelStatus.READY:
            store.call(store.client.finalize_logged_model, model.model_id, LoggedModelStatus.READY)
        outputs = run.outputs.model_outputs if run.outputs else []
        if model.model_id not in {each.model_id for each in outputs}:
            store.call(store.client.log_outputs, run_id, [LoggedModelOutput(model.model_id, step=0)])
        store.tag(run_id, {MODEL_ID: model.model_id})
    if FAILURE in tags:
        store.call(store.client.delete_tag, run_id, FAILURE)


def _logged_model(store: Store, run: Run) -> LoggedModel | None:
    """Return the run's logged model, which is created if it is missing. None if the server has no logged models.

    An existing one comes from an earlier attempt, or is being written on a different machine.
    """
    client, info = store.client, run.info

    def existing() -> LoggedModel | None:
        matches = client.search_logged_models([info.experiment_id], f"source_run_id = '{info.run_id}'")
        return min(matches, key=lambda each: (each.creation_timestamp, each.model_id), default=None)

    try:
        return store.call(existing) or store.create(
            client.create_logged_model,
            info.experiment_id,
            existing=existing,
            name=re.sub(r"[/:.%\"']+", "_", run.data.tags.get(ARM) or NAME),
            source_run_id=info.run_id,
            params=run.data.params,
            tags={"platform.job_name": run.data.tags.get("platform.job_name", "")},
        )
    except TrackingError as error:
        # SageMaker's tracking server answers 403 to unknown calls.
        if is_unknown_call(error.__cause__) or store.uri.startswith("arn:"):
            return None
        raise
