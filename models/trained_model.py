"""Look up a trained model by run id, job name, group id or registered name."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from models.inference.evaluation import UNKNOWN, Evaluation, evaluation_of
from models.quality import without_own
from tracking.queries.job_tables import NOT_SET, quoted, run_named, runs_where, tagged, tags_of
from tracking.queries.metric_histories import number
from tracking.recorded.recorded_job import EVALUATIONS
from tracking.server.store import Store, require_answer
from training.contract.errors import InputError, TrackingError

MODEL_TAG = "platform.model"
"""Version tag with the URI of its MLflow model, `models:/m-...` or `runs:/RUN/model`."""
RUN_ID_TAG = "platform.run_id"
_URI = re.compile(r"models:/([^/@:]+)(?:@([\w-]+)|/([0-9]{1,9}))")
_RUN_ID = re.compile(r"[0-9a-f]{32}")
_NAMES = "a run id, a job name, a group id, or models:/NAME@ALIAS"


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A job's model, as the tracking server records it."""

    run_id: str
    job_name: str
    group: str
    arm: str
    experiment_name: str
    """Name of the experiment. By default, the registered model has this name."""
    experiment_id: str
    task: str
    """Name of the task; empty for a script."""
    status: str
    """MLflow's status of the run: FINISHED, FAILED, KILLED, RUNNING ..."""
    failure: str
    """Class of the failure; empty if the job did not fail."""
    metrics: Mapping[str, float]
    """Finite metrics of the last evaluation, by name, such as `eval_accuracy`."""
    target_metric: str | None
    evaluation_key: str | None
    """Key of the evaluation rows; None if the run does not record it."""
    data_key: str | None
    """Key of all tokenized data of the job."""
    model_id: str | None
    model_artifact: str | None
    """URI of the model as a run artifact, `runs:/RUN/model`, if the server has no logged models."""
    model_failure: str | None
    artifact_uri: str | None
    """The model artifact of the training job: `file:///...model.tar.gz` or `s3://...`."""
    artifact_deleted: str
    """Date on which that artifact was deleted, and its address; else empty."""
    versions: str
    """Libraries that trained it: `torch 2.13.0, transformers 5.23.0`."""
    evaluation: Evaluation = UNKNOWN
    quality: str = ""
    """Digest of the user's own quality function; empty without one."""
    chosen: str = ""
    """Reason for choosing this job, one or two sentences, if a group was named."""

    @property
    def model_uri(self) -> str | None:
        """URI of the MLflow model: `models:/m-...` or `runs:/RUN/model`. None if the run has no MLflow model."""
        return f"models:/{self.model_id}" if self.model_id else self.model_artifact


def trained_model(store: Store, run: str) -> TrainedModel:
    """Return the model that `run` names.

    `run` is an MLflow run id (with or without `runs:/`), a job name, `models:/NAME@ALIAS` or `models:/NAME/3`. It may
    also be a group id or the run id of a group, which mean the group's winner (see `winner.winner`). Raises
    `InputError` with one sentence if `run` does not name exactly one job, and `TrackingError`.
    """
    name = run.strip()
    if name.startswith("models:/"):
        version = Versions(store).by_uri(name)
        return trained_model_of(store, run_named(store.client, version.run_id))
    name = name.removeprefix("runs:/").partition("/")[0]
    if not name:
        raise InputError(f"run is '{run}', but it must be {_NAMES}.")
    if _RUN_ID.fullmatch(name):
        found = run_named(store.client, name)
        kind, group = found.data.tags.get("platform.kind"), found.data.tags.get("platform.group")
        if kind == "job":
            return trained_model_of(store, found)
        if kind == "group" and group:
            return _of_group(store, group)
        actual = f": it is the run of a {kind}" if kind else ""
        raise InputError(f"run is '{name}', which is not the run of a job or of a group{actual}.")
    if _jobs_with(store, "group", name):
        return _of_group(store, name)
    runs = _jobs_with(store, "job_name", name)
    if not runs:
        who = f" that user '{store.user}' can read" if store.user else ""
        raise InputError(f"run is '{name}', which is not a run, job or group on the tracking server {store.uri}{who}.")
    if len(runs) > 1:
        some = ", ".join(str(each.info.run_id) for each in runs[:3])
        raise InputError(f"run is '{name}', a job name that {len(runs)} runs have ({some}): give a run id instead.")
    return trained_model_of(store, runs[0])


def trained_model_of(store: Store, run: Run) -> TrainedModel:
    tags, params = tags_of(run), {name: text for name, text in run.data.params.items() if text != NOT_SET}
    metrics = {key: number(value) for key, value in run.data.metrics.items() if key in EVALUATIONS}
    evaluated = {key: value for key, value in metrics.items() if math.isfinite(value)}
    quality = params.get("hp.quality_digest", "")
    # The experiment's name from the group's run, or else the name of the MLflow experiment.
    parent, name = tags.get(MLFLOW_PARENT_RUN_ID), None
    with suppress(TrackingError):  # the group's run no longer exists
        name = store.call(store.client.get_run, parent).data.tags.get("platform.experiment") if parent else None
    return TrainedModel(
        run_id=str(run.info.run_id),
        job_name=tags.get("platform.job_name", str(run.info.run_name)),
        group=tags.get("platform.group", ""),
        arm=tags.get("arm", ""),
        experiment_name=str(name or store.call(store.client.get_experiment, run.info.experiment_id).name),
        experiment_id=str(run.info.experiment_id),
        task=params.get("hp.task", ""),
        status=str(run.info.status),
        failure=tags.get("platform.failure_class", ""),
        metrics=evaluated if quality else without_own(evaluated),
        quality=quality,
        target_metric=params.get("hp.target_metric"),
        evaluation_key=tags.get("platform.evaluation_key"),
        data_key=tags.get("platform.data_key"),
        model_id=tags.get("platform.model_id"),
        model_artifact=tags.get("platform.model_artifact"),
        model_failure=tags.get("platform.model_failure"),
        artifact_uri=tags.get("platform.model_uri"),
        artifact_deleted=tags.get("platform.model_deleted", ""),
        versions=tags.get("platform.versions", ""),
        evaluation=evaluation_of(params, params.get("hp.task", "")),
    )


def _of_group(store: Store, group: str) -> TrainedModel:
    # Imported late: the report modules take a second to load.
    from models.winner import winner

    chosen = winner(store.client, group)
    return replace(trained_model_of(store, run_named(store.client, chosen.run_id)), chosen=chosen.why)


def _jobs_with(store: Store, tag: str, value: str) -> list[Run]:
    return runs_where(store.client, tagged(kind="job", **{tag: value}))


@dataclass(frozen=True)
class Version:
    name: str
    number: str
    run_id: str
    """Run that trained it; empty if the version does not record it."""

    @classmethod
    def of(cls, version: ModelVersion) -> Version:
        return cls(str(version.name), str(version.version), str(version.tags.get(RUN_ID_TAG) or version.run_id or ""))

    def __str__(self) -> str:
        return f"version {self.number} of {self.name}"


def model_name(uri: str) -> str | None:
    """Return NAME of `models:/NAME@ALIAS` or `models:/NAME/3`; None for any other text."""
    match = _URI.fullmatch(uri.strip())
    return match[1] if match else None


class Versions:
    """The registry of one tracking server."""

    def __init__(self, store: Store) -> None:
        uri = str(store.client.tracking_uri)
        # By default a client uses the registry set for the whole process, not the one of its tracking server.
        registry_uri = os.environ.get("MLFLOW_REGISTRY_URI") or uri
        require_answer(registry_uri)
        self.client = MlflowClient(tracking_uri=uri, registry_uri=registry_uri)
        self._store = store

    def by_uri(self, uri: str) -> Version:
        """Return the version that a `models:` URI names. Raises `InputError` if no such version exists."""
        match = _URI.fullmatch(uri)
        if match is None:
            raise InputError(f"run is '{uri}': write a registered model as models:/NAME@ALIAS or models:/NAME/3.")
        name, alias, number = match.groups()
        version = self.by_alias(name, alias) if alias else self.by_number(name, number)
        if version is None:
            raise InputError(f"run is '{uri}', which does not exist in the registry of {self._store.uri}.")
        if not version.run_id:
            raise InputError(f"run is '{uri}', but {version} does not record which run trained it: give a run id.")
        return version

    def by_alias(self, name: str, alias: str) -> Version | None:
        """Return the version that an alias names; None if it does not exist or this user may not read it."""
        # A search, because for a user with few permissions basic auth answers 403 to a request for a missing model.
        models = self._store.call(self.client.search_registered_models, f"name = {quoted(name)}", max_results=1)
        number = models[0].aliases.get(alias) if models else None
        return self.by_number(name, str(number)) if number else None

    def by_number(self, name: str, number: str) -> Version | None:
        return next(iter(self._search(f"name = {quoted(name)} and version_number = {number}")), None)

    def by_model(self, name: str, model_uri: str) -> Version | None:
        """Return the registered model's first version that was made from this MLflow model, or None."""
        versions = self._search(f"name = {quoted(name)} and tags.`{MODEL_TAG}` = {quoted(model_uri)}")
        return min(versions, key=lambda version: int(version.number), default=None)

    def _search(self, where: str) -> list[Version]:
        return [
            Version.of(each) for each in self._store.call(self.client.search_model_versions, where, max_results=100)
        ]


def find_artifact_location(store: Store, trained: TrainedModel) -> str:
    """Return the URI of a model's files. Raises `InputError` if the run has no MLflow model, and `TrackingError`."""
    if trained.model_id is None:
        if trained.model_artifact is None:
            raise InputError(
                f"run {trained.run_id} ({trained.job_name}) has no MLflow model: {missing_reason(trained)}."
            )
        run = store.call(store.client.get_run, trained.run_id)
        return f"{run.info.artifact_uri}/{PurePosixPath(trained.model_artifact).name}"
    try:
        return str(store.call(store.client.get_logged_model, trained.model_id).artifact_location)
    except TrackingError as error:
        if error_code(error) in {"RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"}:
            title = f"model {trained.model_id} of run {trained.run_id} ({trained.job_name})"
            raise InputError(f"{title} no longer exists on the tracking server {store.uri}.") from error
        raise


def missing_reason(trained: TrainedModel) -> str:
    """Return the sentence about a run without a model, without the full stop."""
    if trained.model_failure:
        return trained.model_failure.rstrip(".")
    if trained.artifact_deleted:
        date = trained.artifact_deleted.partition(" ")[0]
        return (
            f"its files were deleted on {date}; a comparison keeps the best model of each setting (log_model), and the "
            f"group's id, {trained.group}, names the winner's"
        )
    if trained.artifact_uri:
        return "none was logged (see log_model)"
    is_failed = trained.status != "FINISHED"
    return f"its job ended {trained.status}" if is_failed else "its job saved none (see save_model)"


def error_code(error: TrackingError) -> str:
    """Return MLflow's error code, or an empty text if the server did not answer."""
    cause = error.__cause__
    return str(cause.error_code) if isinstance(cause, MlflowException) else ""
